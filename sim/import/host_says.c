#include "sim/import/host_says.h"
#include "sim/base/error.h"
#include "sim/import/refused.h"

#include <string.h>

/* A process that was killed. */
typedef struct {
    bool any;
    uint64_t id;
    char name[64];
    EchRounded own, shared; /* bytes 0: not told */
} Victim;

enum { MAX_USERS = 16 };

struct EchHostSays {
    Victim killed; /* by the kernel, the first */
    uint64_t more; /* after it */
    bool has_limit;
    EchRounded limit;     /* of its cgroup */
    bool of_container;    /* Kubernetes or Docker say that it was killed for want of memory; */
    bool in_limits;       /* a list of its limits is being read; */
    unsigned n_limits;    /* as many have been that differ, the last before it was killed or the first after, */
    EchBytes limit_of_it; /* which is this one */
    bool ray;
    Victim task;
    EchRounded used, total;  /* of the node, as Ray counts */
    double threshold;        /* 0: not told */
    Victim users[MAX_USERS]; /* of the node, as Ray lists those that hold most */
    unsigned n_users;
    bool in_users;
    bool has_shared;
    EchRounded shared, shared_all; /* of /dev/shm at its fullest: in use, and in all */
    EchRounded worker, bound;      /* Dask's fullest worker, and what it may hold; 0: none */
    bool header;                   /* The next line is the row of 'free'. */
    bool has_total, has_available;
    EchRounded all, available;
};

EchHostSays *ech_host_says_new(void)
{
    return g_new0(EchHostSays, 1);
}

void ech_host_says_free(EchHostSays *says)
{
    g_free(says);
}

static void copy(char *to, size_t size, EchWords words)
{
    g_autofree char *text = ech_quote(words.text, (gssize)MIN(words.n, size - 1), size - 1);
    g_strlcpy(to, text, size);
}

/* ---- lines ---- */

/* "Out of memory: Killed process 410126 (python) total-vm:79905000kB, anon-rss:22957108kB, file-rss:0kB, shmem-rss:1024kB", "Memory cgroup out of memory: ..."
 */
static bool read_killed(EchHostSays *s, EchWords line)
{
    EchWords rest = ech_words_after(line, ech_words_have(line, "Killed process ") ? "Killed process " : "Kill process ");
    Victim v = {.any = true};
    if (rest.n == 0 || !ech_words_size_after(line, "anon-rss", &v.own))
        return false;
    ech_words_size_after(line, "shmem-rss", &v.shared);
    g_autofree char *id = g_strndup(rest.text, strspn(rest.text, "0123456789"));
    if (!ech_parse_u64(id, &v.id, NULL))
        return false;
    EchWords name = ech_words_after(rest, "(");
    const char *close = name.n ? memchr(name.text, ')', name.n) : NULL;
    copy(v.name, sizeof v.name, (EchWords){name.text, close ? (size_t)(close - name.text) : 0});
    s->more += s->killed.any;
    if (!s->killed.any)
        s->killed = v;
    return true;
}

/* "memory: usage 16777216kB, limit 16777216kB, failcnt 1234" */
static bool read_limit(EchHostSays *s, EchWords line)
{
    EchRounded usage;
    return ech_words_start(line, "memory: usage ") && ech_words_size_after(line, "usage ", &usage) &&
           (s->has_limit = ech_words_size_after(line, "limit ", &s->limit));
}

/* The value of a line in YAML or JSON or of a table of kubectl: "memory:  64Gi", "\"memory\": \"64Gi\",". Nothing where its key is another. */
static EchWords value_of(EchWords line, const char *key)
{
    size_t length = strlen(key);
    EchWords none = {line.text, 0};
    if (line.n && *line.text == '-')
        line = ech_words_trim(line.text + 1, line.n - 1);
    if (line.n && *line.text == '"')
        line.text++, line.n--;
    if (line.n <= length || g_ascii_strncasecmp(line.text, key, length) != 0)
        return none;
    EchWords rest = {line.text + length, line.n - length};
    if (*rest.text == '"')
        rest.text++, rest.n--;
    if (rest.n == 0 || *rest.text != ':')
        return none;
    rest = ech_words_trim(rest.text + 1, rest.n - 1);
    while (rest.n && strchr("\",{", rest.text[rest.n - 1]))
        rest = ech_words_trim(rest.text, rest.n - 1);
    return rest.n && *rest.text == '"' ? (EchWords){rest.text + 1, rest.n - 1} : rest;
}

/* A quantity of Kubernetes: "64Gi", "64G" (of 10^9), "68719476736" (kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity). */
static bool quantity(EchWords text, EchBytes *ret)
{
    static const char units[] = "kmgtp";
    g_autofree char *copied = g_strndup(text.text, MIN(text.n, (size_t)24));
    char *end;
    double value = g_ascii_isdigit(*copied) ? g_ascii_strtod(copied, &end) : -1;
    if (value < 0)
        return false;
    const char *unit = *end ? strchr(units, g_ascii_tolower(*end)) : NULL;
    bool binary = unit && end[1] == 'i';
    if (*end && (!unit || end[1 + binary] || *end == 'm'))
        return false;
    for (const char *at = units; unit && at <= unit; at++)
        value *= binary ? 1024 : 1000;
    *ret = value < 1e18 ? ech_rounded_bytes(value) : 0;
    return *ret != 0;
}

/* "Reason: OOMKilled" and "Limits:" of kubectl, "reason: OOMKilled" and "limits:" of its YAML, "\"OOMKilled\": true" and "\"Memory\": 68719476736" of 'docker
 * inspect'. */
static bool read_container(EchHostSays *s, EchWords line)
{
    EchWords reason = value_of(line, "reason"), killed = value_of(line, "OOMKilled");
    if (ech_words_start(reason, "OOMKilled") || ech_words_start(killed, "true")) {
        /* kubectl describe lists a container's limits behind its state, those before are another's. */
        if (!s->of_container && ech_words_have(line, "Reason"))
            s->n_limits = 0;
        return s->of_container = true;
    }
    bool heads = line.n && (line.text[line.n - 1] == ':' || line.text[line.n - 1] == '{');
    if (heads) {
        EchWords head = ech_words_trim(line.text, line.n);
        while (head.n && strchr("\"-: {", *head.text))
            head.text++, head.n--;
        return s->in_limits = head.n > 6 && g_ascii_strncasecmp(head.text, "limits", 6) == 0;
    }
    EchBytes limit;
    bool of_docker = ech_words_start(line, "\"Memory\":");
    if ((!s->in_limits && !of_docker) || !quantity(value_of(line, "memory"), &limit))
        return false;
    bool settled = s->of_container && s->n_limits == 1 && !of_docker;
    if (!settled) {
        s->n_limits += s->n_limits == 0 || s->limit_of_it != limit;
        s->limit_of_it = limit;
    }
    return true;
}

/* Whether the limit that it reached is known. */
static bool is_container_told(const EchHostSays *s)
{
    return s->of_container && s->n_limits == 1;
}

/* "Memory on the node (IP: ...) where the task (task ID: ..., name=train, pid=548, memory used=12.18GB) was running was 21.91GB / 33.28GB (0.658192), which
 * exceeds the memory usage threshold of 0.65." */
static bool read_ray(EchHostSays *s, EchWords line)
{
    EchWords rest = ech_words_after(line, "was running was ");
    if (s->ray || !ech_words_have(line, "Memory on the node") || !ech_words_size_after(rest, "", &s->used) || !ech_words_size_after(rest, "/", &s->total))
        return false;
    EchWords name = ech_words_after(line, "name="), share = ech_words_after(line, "usage threshold of ");
    const char *comma = name.n ? memchr(name.text, ',', name.n) : NULL;
    s->ray = true;
    s->task.any = ech_words_number_after(line, "pid=", &s->task.id) && ech_words_size_after(line, "memory used=", &s->task.own);
    copy(s->task.name, sizeof s->task.name, (EchWords){name.text, comma ? (size_t)(comma - name.text) : 0});
    g_autofree char *threshold = g_strndup(share.text, MIN(share.n, (size_t)8));
    s->threshold = CLAMP(g_ascii_strtod(threshold, NULL), 0, 1);
    return true;
}

/* Its daemon's own log: "memory_monitor.cc:71: Node memory usage above threshold, used: 25104216064, total: 35738255360, usage fraction: 0.7024, threshold:
 * 0.7" */
static bool read_raylet(EchHostSays *s, EchWords line)
{
    uint64_t used, total;
    EchWords rest = ech_words_after(line, "Node memory usage above threshold"), share = ech_words_after(line, "threshold: ");
    if (s->ray || !ech_words_number_after(rest, "used", &used) || !ech_words_number_after(rest, "total", &total) || used > total)
        return false;
    s->used = (EchRounded){used, 0};
    s->total = (EchRounded){total, 0};
    g_autofree char *threshold = g_strndup(share.text, MIN(share.n, (size_t)8));
    s->threshold = CLAMP(g_ascii_strtod(threshold, NULL), 0, 1);
    return s->ray = true;
}

/* Ray before 1.0, wrapped by a terminal or not: "More than 95% of the memory on node gpu3 is used (11.8 / 12.3 GB). The top 5 memory consumers are:" */
static bool read_old_ray(EchHostSays *s, EchWords line)
{
    EchWords pair = ech_words_after(line, " is used (");
    const char *slash = pair.n && !s->ray ? memchr(pair.text, '/', MIN(pair.n, (size_t)24)) : NULL;
    if (!slash || !ech_words_have(line, "memory consumers") || !ech_words_size_after(pair, "/", &s->total))
        return false;
    g_autofree char *used = g_strndup(pair.text, (gsize)(slash - pair.text)), *unit = g_strdup_printf("%s GB", g_strstrip(used));
    size_t n;
    return s->ray = ech_rounded_parse(unit, strlen(unit), &s->used, &n);
}

/* "PID MEM(GB) COMMAND", "565 32.00 ray::Trainer.train", of old "28 5.0GB ray_X:alloc()"; its GB are of 2^30 bytes (ray/_private/utils.py). The first list. */
static bool read_user(EchHostSays *s, EchWords line)
{
    if (s->ray && s->n_users == 0 && ech_words_start(line, "PID") && ech_words_have(line, "MEM") && ech_words_have(line, "COMMAND"))
        return s->in_users = true;
    if (!s->in_users)
        return false;
    g_autofree char *text = g_strndup(line.text, MIN(line.n, (size_t)256));
    char *end, *behind;
    guint64 id = g_ascii_strtoull(text, &end, 10);
    double gib = end > text && g_ascii_isspace(*end) ? g_ascii_strtod(end, &behind) : -1;
    if (!(gib >= 0) || gib > 1e6 || behind == end || s->n_users == MAX_USERS)
        return s->in_users = false;
    behind += g_str_has_prefix(behind, "GB") ? 2 : 0;
    if (!g_ascii_isspace(*behind))
        return s->in_users = false;
    Victim user = {.any = true, .id = id, .own = {ech_rounded_bytes(gib * (double)(1 << 30)), 0}};
    copy(user.name, sizeof user.name, ech_words_trim(behind, strlen(behind)));
    s->users[s->n_users++] = user;
    return true;
}

/* "Worker is at 89% memory usage. Pausing worker.  Process memory: 2.09 GiB -- Worker memory limit: 2.33 GiB" */
static bool read_dask(EchHostSays *s, EchWords line)
{
    EchRounded held, bound;
    if (!ech_words_size_after(line, "Worker memory limit:", &bound) ||
        (!ech_words_size_after(line, "Process memory:", &held) && !ech_words_size_after(line, "nmanaged memory:", &held)))
        return false;
    if (held.bytes > s->worker.bytes) {
        s->worker = held;
        s->bound = bound;
    }
    return true;
}

static bool cell(EchWords *row, EchRounded *ret);

/* 'df -h /dev/shm': "tmpfs                 24G   23G  1.1G  96% /dev/shm" */
static bool read_shared(EchHostSays *s, EchWords line)
{
    enum { CELLS = 3 };
    const char *path = ech_words_find(line, "% /dev/shm");
    EchWords rest = {line.text, path ? (size_t)(path - line.text) : 0};
    while (rest.n && !g_ascii_isspace(*rest.text))
        rest.text++, rest.n--;
    rest = ech_words_trim(rest.text, rest.n);
    EchRounded cells[CELLS];
    for (int i = 0; i < CELLS; i++) {
        if (rest.n == 0 || !cell(&rest, &cells[i]))
            return false;
    }
    if (cells[1].bytes >= s->shared.bytes) {
        s->shared_all = cells[0];
        s->shared = cells[1];
    }
    return s->has_shared = true;
}

/* A size of 'free': "15Gi" with -h, else a number of KiB. */
static bool cell(EchWords *row, EchRounded *ret)
{
    size_t used = 0;
    if (ech_rounded_parse(row->text, row->n, ret, &used)) {
        *row = ech_words_trim(row->text + used, row->n - used);
        return true;
    }
    while (used < row->n && g_ascii_isdigit(row->text[used]))
        used++;
    uint64_t kib;
    g_autofree char *digits = g_strndup(row->text, MIN(used, (size_t)24));
    if (used == 0 || !ech_parse_u64(digits, &kib, NULL) || kib >= UINT64_C(1) << 40)
        return false;
    *ret = (EchRounded){kib << 10, 512};
    *row = ech_words_trim(row->text + used, row->n - used);
    return true;
}

/* "total used free shared buff/cache available", "Mem: 15Gi 3.6Gi 7.8Gi 641Mi 3.9Gi 10Gi" */
static bool read_free(EchHostSays *s, EchWords line)
{
    enum { COLUMNS = 6 };
    if (ech_words_start(line, "total ") && ech_words_have(line, "buff/cache") && ech_words_have(line, "available"))
        return s->header = true;
    bool row = s->header;
    s->header = false;
    EchRounded cells[COLUMNS];
    EchWords rest = ech_words_after(line, ":");
    if (!row || line.n < 4 || g_ascii_strncasecmp(line.text, "mem:", 4) != 0)
        return false;
    for (int i = 0; i < COLUMNS; i++) {
        if (!cell(&rest, &cells[i]))
            return false;
    }
    s->all = cells[0];
    s->available = cells[COLUMNS - 1];
    return s->has_total = s->has_available = true;
}

/* /proc/meminfo: "MemTotal:       32490272 kB" */
static bool read_meminfo(EchHostSays *s, EchWords line)
{
    if (ech_words_start(line, "MemTotal:"))
        return s->has_total = ech_words_size_after(line, "MemTotal:", &s->all);
    return ech_words_start(line, "MemAvailable:") && (s->has_available = ech_words_size_after(line, "MemAvailable:", &s->available));
}

bool ech_host_says_line(EchHostSays *s, EchWords line)
{
    return read_killed(s, line) || read_limit(s, line) || read_container(s, line) || read_ray(s, line) || read_raylet(s, line) || read_old_ray(s, line) ||
           read_user(s, line) || read_dask(s, line) || read_shared(s, line) || read_free(s, line) || read_meminfo(s, line);
}

/* ---- what it comes to ---- */

static bool has_room(const EchHostSays *s)
{
    return s->has_total && s->has_available;
}

bool ech_host_says_any(const EchHostSays *s)
{
    return s->killed.any || s->ray || is_container_told(s) || s->worker.bytes || s->has_shared || has_room(s);
}

static void say_killed(const EchHostSays *s, EchDiag *diag)
{
    const Victim *v = &s->killed;
    g_autofree char *own = ech_format_bytes(v->own.bytes), *shared = ech_format_bytes(v->shared.bytes), *limit = ech_format_bytes(s->limit.bytes);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "the kernel killed %s (%" G_GUINT64_FORMAT ") for want of the host's memory, not the device's: it held %s of its own", v->name,
                           v->id, own);
    if (v->shared.bytes)
        g_string_append_printf(text, " and %s shared or page-locked", shared);
    if (s->has_limit)
        g_string_append_printf(text, ", in a group of processes (a container, a job) that may have %s", limit);
    if (s->more)
        g_string_append_printf(text, "; %" G_GUINT64_FORMAT " more were killed after it", s->more);
    ech_diag_remark(diag, "%s", text->str);
}

/* kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource; kernel's cgroup-v2 on what is charged. */
static void say_container(const EchHostSays *s, EchDiag *diag)
{
    g_autofree char *limit = ech_format_bytes(s->limit_of_it);
    ech_diag_remark(diag, "the container was ended for want of the host's memory, not the device's (OOMKilled, 137 as signal 9): it may have %s", limit);
    ech_diag_remark(diag, "all of its processes count against that, and files in /dev/shm (an emptyDir with 'medium: Memory'): a larger "
                          "limit (resources.limits.memory, docker run --memory), or less at once");
}

static void say_ray(const EchHostSays *s, EchDiag *diag)
{
    g_autofree char *own = ech_format_bytes(s->task.own.bytes), *used = ech_format_bytes(s->used.bytes), *total = ech_format_bytes(s->total.bytes);
    g_autoptr(GString) text = g_string_new("Ray killed ");
    if (s->task.any)
        g_string_append_printf(text, "%s (process %" G_GUINT64_FORMAT ", which held %s)", s->task.name[0] ? s->task.name : "a task", s->task.id, own);
    else
        g_string_append(text, "a task");
    g_string_append_printf(text, " for want of the host's memory, not the device's: %s of the node's %s were in use", used, total);
    if (s->threshold > 0)
        g_string_append_printf(text, ", more than the share that it allows (%g, RAY_memory_usage_threshold)", s->threshold);
    ech_diag_remark(diag, "%s", text->str);
    enum { TOLD = 3 };
    g_string_assign(text, "most of it was held by ");
    for (unsigned i = 0; i < MIN(s->n_users, (unsigned)TOLD); i++) {
        g_autofree char *size = ech_format_bytes(s->users[i].own.bytes);
        g_string_append_printf(text, "%s%s (%" G_GUINT64_FORMAT ") %s", i ? ", " : "", s->users[i].name, s->users[i].id, size);
    }
    if (s->n_users && s->task.any && s->users[0].id != s->task.id)
        g_string_append(text, ": Ray ends the newest task that it may begin again, not the one that holds most");
    if (s->n_users)
        ech_diag_remark(diag, "%s", text->str);
}

/* distributed.dask.org/en/latest/worker-memory.html: its thresholds unless set. */
static void say_dask(const EchHostSays *s, EchDiag *diag)
{
    g_autofree char *held = ech_format_bytes(s->worker.bytes), *bound = ech_format_bytes(s->bound.bytes);
    ech_diag_remark(
        diag,
        "a worker of Dask held %s of the host's memory, not the device's, and may hold %s (memory_limit, --memory-limit): at 70 %% it spills to disk, "
        "at 80 %% it waits, at 95 %% it is ended and begun again",
        held, bound);
    ech_diag_remark(diag,
                    "fewer workers on the machine with more each, smaller partitions, or results that are not all gathered need less; 'unmanaged' is what "
                    "Dask did not put there: what a task holds while it runs, and what libraries have not given back (MALLOC_TRIM_THRESHOLD_=0)");
}

void ech_host_says_say(const EchHostSays *s, EchDiag *diag)
{
    g_autofree char *all = ech_format_bytes(s->all.bytes), *available = ech_format_bytes(s->available.bytes);
    if (s->killed.any)
        say_killed(s, diag);
    else if (is_container_told(s))
        say_container(s, diag);
    if (s->ray)
        say_ray(s, diag);
    if (s->worker.bytes)
        say_dask(s, diag);
    if (s->has_shared) {
        g_autofree char *used = ech_format_bytes(s->shared.bytes), *shared = ech_format_bytes(s->shared_all.bytes);
        ech_diag_remark(
            diag,
            "/dev/shm, a part of the host's memory that workers of data loaders, NCCL and others talk through, had %s of its %s in use at the fullest "
            "that the text tells of; where it is full, a process dies of a bus error. Fewer workers, a smaller prefetch_factor or batch take less; "
            "docker run --shm-size=16g, in Kubernetes an emptyDir with 'medium: Memory' there, make it larger",
            used, shared);
    }
    if (has_room(s))
        ech_diag_remark(diag, "of the host's memory, %s, %s were available", all, available);
    if (s->killed.any || s->ray || is_container_told(s))
        ech_diag_remark(diag, "%s", ECH_HOST_FULL);
}

void ech_host_says_write(const EchHostSays *s, EchTraceBuilder *builder)
{
    EchId memory = ech_trace_builder_memory(builder, "host");
    if (s->killed.any) {
        ech_refused_held(builder, memory, s->killed.name[0] ? s->killed.name : "the killed process", s->killed.own.bytes);
        ech_refused_held(builder, memory, "shared or page-locked", s->killed.shared.bytes);
    } else if (s->ray) {
        EchBytes told = 0;
        for (unsigned i = 0; i < s->n_users; i++) {
            g_autofree char *name = g_strdup_printf("%s (%" G_GUINT64_FORMAT ")", s->users[i].name, s->users[i].id);
            ech_refused_held(builder, memory, name, s->users[i].own.bytes);
            told = ech_bytes_add(told, s->users[i].own.bytes);
        }
        ech_refused_held(builder, memory, told ? "in use on the node besides" : "in use on the node", s->used.bytes - MIN(s->used.bytes, told));
    } else if (is_container_told(s)) {
        ech_refused_held(builder, memory, "the container, at its limit", s->limit_of_it);
    } else if (s->worker.bytes) {
        ech_refused_held(builder, memory, "the fullest worker", s->worker.bytes);
    } else if (s->has_shared && !has_room(s)) {
        ech_refused_held(builder, memory, "/dev/shm", s->shared.bytes);
    } else {
        ech_refused_held(builder, memory, "in use on the host", s->all.bytes - MIN(s->all.bytes, s->available.bytes));
    }
}
