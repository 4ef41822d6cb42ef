/* Replays files and folders of inputs through a fuzz target, where libFuzzer is not linked: ctest's regression run. */
#include <glib.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replay(const char *path)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    unsigned n = 0;
    if (dir) {
        for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
            g_autofree char *child = g_build_filename(path, name, NULL);
            n += replay(child);
        }
        return n;
    }
    g_autofree char *data = NULL;
    size_t size;
    if (!g_file_get_contents(path, &data, &size, NULL))
        return 0;
    LLVMFuzzerTestOneInput((const uint8_t *)data, size);
    return 1;
}

int main(int argc, char **argv)
{
    unsigned n = 0;
    for (int i = 1; i < argc; i++)
        n += replay(argv[i]);
    printf("%u inputs replayed\n", n);
    return n > 0 ? 0 : 1;
}
