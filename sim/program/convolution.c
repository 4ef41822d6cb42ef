#include "sim/program/convolution.h"

#include <string.h>

static int64_t read_number(const char **at, const char *end)
{
    bool minus = *at < end && **at == '-';
    int64_t value = 0;
    for (*at += minus; *at < end && g_ascii_isdigit(**at); (*at)++)
        value = value < (INT64_C(1) << 40) ? value * 10 + (**at - '0') : value;
    return minus ? -value : value;
}

/* "pad=1_1x0_2" */
static void read_pads(const char *text, size_t n, EchHloWindow *ret)
{
    const char *at = text != NULL ? g_strstr_len(text, (gssize)n, "pad=") : NULL;
    if (at == NULL)
        return;
    const char *end = text + n;
    at += strlen("pad=");
    for (unsigned i = 0; i < 8 && at < end; i++) {
        int64_t low = read_number(&at, end), high = 0;
        if (at < end && *at == '_') {
            at++;
            high = read_number(&at, end);
        }
        ret->pad[i] = low + high;
        if (at >= end || *at != 'x')
            return;
        at++;
    }
}

EchHloWindow ech_hlo_window(const EchInstruction *convolution)
{
    EchHloWindow window = {0};
    for (unsigned i = 0; i < 8; i++)
        window.size[i] = window.stride[i] = window.lhs_dilate[i] = window.rhs_dilate[i] = 1;
    size_t n;
    const char *text = ech_program_attribute(convolution, "window", &n);
    static const char *const names[] = {"size=", "stride=", "lhs_dilate=", "rhs_dilate="};
    uint64_t *const fields[] = {window.size, window.stride, window.lhs_dilate, window.rhs_dilate};
    for (unsigned f = 0; text != NULL && f < 4; f++) {
        const char *at = g_strstr_len(text, (gssize)n, names[f]);
        if (at == NULL)
            continue;
        at += strlen(names[f]);
        for (unsigned i = 0; i < 8 && at < text + n && g_ascii_isdigit(*at); i++) {
            uint64_t value = 0;
            while (at < text + n && g_ascii_isdigit(*at) && value < (UINT64_C(1) << 40))
                value = value * 10 + (uint64_t)(*at++ - '0');
            fields[f][i] = MAX(value, 1u);
            if (f == 0)
                window.n = i + 1;
            if (at < text + n && *at == 'x')
                at++;
        }
    }
    read_pads(text, n, &window);
    return window;
}

int ech_hlo_label_at(const char *labels, size_t n, char label)
{
    for (size_t i = 0; i < n; i++)
        if (labels[i] == label)
            return (int)i;
    return -1;
}

int ech_hlo_physical(const EchLayout *layout, unsigned position)
{
    for (unsigned i = 0; i < layout->rank; i++) {
        if (layout->dims[layout->order[i]] == 1 && layout->rank > 2)
            continue;
        if (position-- == 0)
            return layout->order[i];
    }
    return -1;
}

bool ech_hlo_labels(const EchInstruction *convolution, EchHloLabels *ret)
{
    size_t n;
    const char *text = ech_program_attribute(convolution, "dim_labels", &n);
    const char *underscore = text ? memchr(text, '_', n) : NULL, *arrow = text ? g_strstr_len(text, (gssize)n, "->") : NULL;
    if (underscore == NULL || arrow == NULL || arrow < underscore)
        return false;
    *ret = (EchHloLabels){.l = text, .r = underscore + 1, .o = arrow + 2};
    ret->ln = (size_t)(underscore - ret->l);
    ret->rn = (size_t)(arrow - ret->r);
    ret->on = n - (size_t)(ret->o - text);
    return true;
}

uint64_t ech_hlo_groups(const EchInstruction *convolution, const char *name)
{
    size_t n;
    const char *text = ech_program_attribute(convolution, name, &n);
    int64_t value = 1;
    return text != NULL && ech_program_numbers(text, n, &value, 1) == 1 && value > 0 ? (uint64_t)value : 1;
}
