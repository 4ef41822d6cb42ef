/* A user's allocator, loaded from a shared object into a process of its own.
 *
 * Requests go over a socket; only an allocation is answered, so frees travel in the same packet as the next request. The child dies with its
 * parent. Its placements are checked before anything believes them. */
#include "models/alloc/check.h"
#include "models/alloc/class.h"
#include "models/alloc/echelon_allocator.h"
#include "sim/base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALL_ALLOC = 1, CALL_RELEASE, CALL_RECORD, CALL_DONE, CALL_DESTROY };
enum { TIMEOUT_MS = 10000, BATCH = 256 };

typedef struct {
    uint32_t call, id, stream, reserved;
    uint64_t value; /* bytes or address */
} Request;

typedef struct {
    uint32_t status, reserved;
    uint64_t address, rounded;
} Reply;

typedef struct {
    uint32_t ok;
    char message[252];
} Hello;

typedef struct {
    EchAllocator base;
    char *path;
    GPtrArray *keys, *values;
    pid_t child;
    int socket;
    bool broken;
    Request batch[BATCH];
    unsigned n_batch;
    EchPlacementChecker *checker;
} Plugin;

/* ---- the child ---- */

static bool read_all(int fd, void *data, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t now = read(fd, (char *)data + got, n - got);
        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return false;
        got += (size_t)now;
    }
    return true;
}

static bool send_all(int fd, const void *data, size_t n)
{
    for (size_t sent = 0; sent < n;) {
        ssize_t now = send(fd, (const char *)data + sent, n - sent, MSG_NOSIGNAL);
        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return false;
        sent += (size_t)now;
    }
    return true;
}

/* Loads and makes the allocator; NULL with a message. */
static const echelon_allocator *load(const Plugin *self, void **ret_object, char *message, size_t n_message)
{
    void *handle = dlopen(self->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        g_strlcpy(message, dlerror(), n_message);
        return NULL;
    }
    const echelon_allocator *(*get)(uint32_t);
    void *symbol = dlsym(handle, "echelon_allocator_get");
    if (!symbol) {
        g_strlcpy(message, "exports no echelon_allocator_get", n_message);
        return NULL;
    }
    memcpy(&get, &symbol, sizeof get);
    const echelon_allocator *plugin = get(ECHELON_ALLOCATOR_VERSION);
    if (!plugin || plugin->version == 0 || plugin->version > ECHELON_ALLOCATOR_VERSION || !plugin->create || !plugin->alloc || !plugin->release) {
        g_snprintf(message, n_message, "does not serve version %u of the interface", ECHELON_ALLOCATOR_VERSION);
        return NULL;
    }
    *ret_object = plugin->create(self->base.memory.capacity, (const char *const *)self->keys->pdata, (const char *const *)self->values->pdata, self->keys->len,
                                 message, n_message);
    if (*ret_object)
        return plugin;
    if (!*message)
        g_strlcpy(message, "create failed without a reason", n_message);
    return NULL;
}

static void serve(const Plugin *self, int fd) G_GNUC_NORETURN;
static void serve(const Plugin *self, int fd)
{
    static const int ours[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT, SIGTERM};
    for (size_t i = 0; i < G_N_ELEMENTS(ours); i++)
        signal(ours[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    dup2(STDERR_FILENO, STDOUT_FILENO);
    void *object = NULL;
    Hello hello = {0};
    const echelon_allocator *plugin = load(self, &object, hello.message, sizeof hello.message);
    hello.ok = plugin != NULL;
    if (!send_all(fd, &hello, sizeof hello) || !plugin)
        _exit(1);
    Request request;
    while (read_all(fd, &request, sizeof request)) {
        switch (request.call) {
        case CALL_ALLOC: {
            Reply reply = {0};
            reply.status = (uint32_t)plugin->alloc(object, request.id, request.value, request.stream, &reply.address, &reply.rounded);
            if (!send_all(fd, &reply, sizeof reply))
                _exit(1);
            break;
        }
        case CALL_RELEASE: plugin->release(object, request.id, request.value); break;
        case CALL_RECORD:
            if (plugin->record_stream)
                plugin->record_stream(object, request.id, request.stream);
            break;
        case CALL_DONE:
            if (plugin->stream_done)
                plugin->stream_done(object, request.stream);
            break;
        case CALL_DESTROY:
            if (plugin->destroy)
                plugin->destroy(object);
            _exit(0);
        default: _exit(1);
        }
    }
    _exit(1);
}

/* ---- the parent ---- */

static void set_fault(Plugin *self, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void set_fault(Plugin *self, const char *format, ...)
{
    self->broken = true;
    if (self->base.fault)
        return;
    va_list arguments;
    va_start(arguments, format);
    self->base.fault = g_strdup_vprintf(format, arguments);
    va_end(arguments);
}

/* Waits for the child and tells how it went. Owned by the caller. */
static char *reap(Plugin *self, bool kill_it)
{
    int status = 0;
    if (self->child <= 0)
        return g_strdup("is not running");
    if (kill_it)
        kill(self->child, SIGKILL);
    while (waitpid(self->child, &status, 0) < 0 && errno == EINTR)
        continue;
    self->child = 0;
    if (WIFSIGNALED(status))
        return g_strdup_printf("crashed with signal %d (%s)", WTERMSIG(status), g_strsignal(WTERMSIG(status)));
    return g_strdup_printf("left with exit code %d", WEXITSTATUS(status));
}

/* Reads an answer; on failure says why. */
static bool receive(Plugin *self, void *data, size_t n, const char *when)
{
    struct pollfd wait = {.fd = self->socket, .events = POLLIN};
    int ready;
    while ((ready = poll(&wait, 1, TIMEOUT_MS)) < 0 && errno == EINTR)
        continue;
    if (ready > 0 && read_all(self->socket, data, n))
        return true;
    bool hung = ready == 0;
    g_autofree char *how = reap(self, hung);
    if (hung)
        set_fault(self, "plugin %s: no answer for %d s %s; it was stopped", self->path, TIMEOUT_MS / 1000, when);
    else
        set_fault(self, "plugin %s %s %s", self->path, how, when);
    return false;
}

/* What waits goes to the child, which may be behind by what the socket holds; one that takes nothing more for so long is stopped. Other failures show in the
 * next answer. */
static void flush(Plugin *self)
{
    const char *data = (const char *)self->batch;
    size_t n = self->n_batch * sizeof *self->batch;
    self->n_batch = 0;
    for (size_t sent = 0; sent < n;) {
        ssize_t now = send(self->socket, data + sent, n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (now > 0) {
            sent += (size_t)now;
            continue;
        }
        if (now < 0 && errno == EINTR)
            continue;
        if (now == 0 || errno != EAGAIN)
            return;
        struct pollfd wait = {.fd = self->socket, .events = POLLOUT};
        int ready;
        while ((ready = poll(&wait, 1, TIMEOUT_MS)) < 0 && errno == EINTR)
            continue;
        if (ready > 0)
            continue;
        g_free(reap(self, true));
        set_fault(self, "plugin %s: did not take its calls for %d s; it was stopped", self->path, TIMEOUT_MS / 1000);
        return;
    }
}

static void call(Plugin *self, Request request)
{
    if (self->broken)
        return;
    self->batch[self->n_batch++] = request;
    if (self->n_batch == BATCH || request.call == CALL_ALLOC || request.call == CALL_DESTROY)
        flush(self);
}

static bool plugin_configure(EchAllocator *base, const char *text, GError **error)
{
    Plugin *self = (Plugin *)base;
    self->socket = -1;
    self->keys = g_ptr_array_new_with_free_func(g_free);
    self->values = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) items = g_strsplit(text ? text : "", ",", -1);
    if (!items[0] || !*items[0]) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "no shared object given; expected plugin:PATH,key=value");
        return false;
    }
    /* The loader looks for a name without a slash elsewhere. */
    self->path = strchr(items[0], '/') ? g_strdup(items[0]) : g_strdup_printf("./%s", items[0]);
    for (char **item = items + 1; *item; item++) {
        char *equals = strchr(*item, '=');
        if (!equals) {
            g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "'%s' is not of the form key=value", *item);
            return false;
        }
        g_ptr_array_add(self->keys, g_strndup(*item, (gsize)(equals - *item)));
        g_ptr_array_add(self->values, g_strdup(equals + 1));
    }
    return true;
}

static bool plugin_init(EchAllocator *base, GError **error)
{
    Plugin *self = (Plugin *)base;
    int pair[2];
    base->n_segments = 1;
    self->checker = ech_placement_checker_new();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 || (self->child = fork()) < 0) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "cannot start a process for the plugin: %s", g_strerror(errno));
        return false;
    }
    if (self->child == 0) {
        close(pair[0]);
        serve(self, pair[1]);
    }
    close(pair[1]);
    self->socket = pair[0];
    Hello hello;
    if (!receive(self, &hello, sizeof hello, "while it was loaded")) {
        g_set_error(error, ECH_ERROR, ECH_ERROR_BACKEND, "%s", base->fault);
        return false;
    }
    hello.message[sizeof hello.message - 1] = '\0';
    if (!hello.ok) {
        g_autofree char *valid = g_utf8_make_valid(hello.message, -1);
        g_set_error(error, ECH_ERROR, ECH_ERROR_CONFIG, "plugin %s: %s", self->path, valid);
        return false;
    }
    return true;
}

static void plugin_done(EchAllocator *base)
{
    Plugin *self = (Plugin *)base;
    if (self->child > 0 && !self->broken)
        call(self, (Request){.call = CALL_DESTROY});
    if (self->child > 0) {
        /* An orderly end closes the socket; whatever takes longer than a second is stopped. */
        char byte;
        struct pollfd wait = {.fd = self->socket, .events = POLLIN};
        bool ended = !self->broken && poll(&wait, 1, 1000) > 0 && read(self->socket, &byte, 1) <= 0;
        g_free(reap(self, !ended));
    }
    if (self->socket >= 0)
        close(self->socket);
    g_clear_pointer(&self->keys, g_ptr_array_unref);
    g_clear_pointer(&self->values, g_ptr_array_unref);
    ech_placement_checker_free(self->checker);
    g_free(self->path);
}

static bool plugin_alloc(EchAllocator *base, const EchAllocRequest *request, EchLive *live, EchPlacement *ret)
{
    Plugin *self = (Plugin *)base;
    if (self->broken)
        return false;
    g_autofree char *when = NULL;
    Reply reply;
    call(self, (Request){.call = CALL_ALLOC, .id = request->id, .stream = request->stream, .value = request->bytes});
    struct pollfd wait = {.fd = self->socket, .events = POLLIN};
    if (poll(&wait, 1, 0) <= 0 || !read_all(self->socket, &reply, sizeof reply)) {
        when = g_strdup_printf("at the allocation of %" G_GUINT64_FORMAT " bytes as number %u", request->bytes, request->id);
        if (!receive(self, &reply, sizeof reply, when))
            return false;
    }
    if (reply.status != 0)
        return false;
    g_autoptr(GError) error = NULL;
    if (reply.rounded < request->bytes || reply.address > base->memory.capacity || reply.rounded > base->memory.capacity - reply.address) {
        set_fault(self,
                  "plugin %s placed illegally: number %u of %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT " with %" G_GUINT64_FORMAT
                  " bytes, in a memory of %" G_GUINT64_FORMAT,
                  self->path, request->id, request->bytes, reply.address, reply.rounded, base->memory.capacity);
        return false;
    }
    if (!ech_placement_checker_add(self->checker, request->id, reply.address, reply.rounded, &error)) {
        set_fault(self, "plugin %s placed illegally: %s", self->path, error->message);
        return false;
    }
    live->address = ret->offset = reply.address;
    live->rounded = reply.rounded;
    live->segment = 0;
    if (reply.address + reply.rounded > base->stats.reserved)
        ech_alloc_count_reserved(base, reply.address + reply.rounded - base->stats.reserved, 0);
    return true;
}

static void plugin_release(EchAllocator *base, uint32_t id, const EchLive *live)
{
    Plugin *self = (Plugin *)base;
    ech_placement_checker_remove(self->checker, live->address);
    call(self, (Request){.call = CALL_RELEASE, .id = id, .value = live->address});
}

static void plugin_record_stream(EchAllocator *base, uint32_t id, const EchLive *live, uint32_t stream)
{
    (void)live;
    call((Plugin *)base, (Request){.call = CALL_RECORD, .id = id, .stream = stream});
}

static void plugin_stream_done(EchAllocator *base, uint32_t stream)
{
    call((Plugin *)base, (Request){.call = CALL_DONE, .stream = stream});
}

static void plugin_walk(const EchAllocator *base, GArray *out)
{
    ech_alloc_walk_holes(base, base->stats.reserved, out);
}

const EchAllocClass ech_alloc_plugin = {
    .name = "plugin",
    .summary = "a user's own allocator: plugin:PATH,key=value loads a shared object (echelon_allocator.h)",
    .source = "the user",
    .size = sizeof(Plugin),
    .configure = plugin_configure,
    .init = plugin_init,
    .done = plugin_done,
    .alloc = plugin_alloc,
    .release = plugin_release,
    .record_stream = plugin_record_stream,
    .stream_done = plugin_stream_done,
    .walk_free = plugin_walk,
};
