/* NCCL: collectives are written down, not run. As every rank asks for the same, one process can be asked alone for what a large group does: nobody waits for
 * anybody. Results of up to PRETEND_COPIED_BYTES are as if all ranks had the caller's operands, so that sizes that ranks tell one another make sense. */
#include "pretend.h"

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ncclResult_t. */
enum { SUCCESS = 0, CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

/* ncclDataType_t: s8, u8, s32, u32, s64, u64, f16, f32, f64, bf16, two of 8 bits. */
static const uint8_t type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static size_t bytes_of(size_t count, int type)
{
    return count * (type >= 0 && (size_t)type < sizeof type_bytes ? type_bytes[type] : 4);
}

/* ---- groups ---- */

typedef struct {
    char name[128];
    int n, first, stride, rank; /* ranks of the whole program; @rank: the caller's place in the group */
} Group;

static Group *groups;
static size_t n_groups;

/* Which rank of the program the process is, as its framework has it. */
PRETEND_EXPORT void pretend_rank(int rank, int n)
{
    pretend_event("rank", "%d %d", rank, n);
}

/* Of processes that tell one another something without their GPUs: this one tells whoever waits for @key, and goes on, or waits until all that tell @key have.
 */
PRETEND_EXPORT void pretend_host_says(int tells, const char *what, uint64_t key)
{
    pretend_event(tells ? "tells" : "hears", "%u %" PRIu64, pretend_name(what), key);
}

/* Told by the program's framework before it makes a communicator, as NCCL itself is not told whose rank is whose: ranks of the whole program. */
PRETEND_EXPORT void pretend_group(const char *name, int n, const int *ranks, int rank)
{
    if (n < 1)
        return;
    Group group = {.n = n, .first = ranks[0], .stride = n > 1 ? ranks[1] - ranks[0] : 1, .rank = rank};
    snprintf(group.name, sizeof group.name, "%s", name ? name : "");
    pretend_lock();
    Group *larger = realloc(groups, (n_groups + 1) * sizeof *larger);
    if (larger) {
        groups = larger;
        groups[n_groups++] = group;
    }
    pretend_unlock();
}

typedef struct {
    char bytes[128];
} UniqueId;

/* Keys that the program's framework keeps unique ids under; a group's name is part of them. */
typedef struct {
    UniqueId id;
    char key[256];
} Kept;

static Kept *told;
static size_t n_told;

PRETEND_EXPORT void pretend_group_id(const void *id, const char *key)
{
    pretend_lock();
    void *larger = realloc(told, (n_told + 1) * sizeof *told);
    if (larger) {
        told = larger;
        memcpy(&told[n_told].id, id, sizeof told[n_told].id);
        snprintf(told[n_told++].key, sizeof told->key, "%s", key);
    }
    pretend_unlock();
}

/* False where none was told. */
static bool find_key(const UniqueId *id, char ret[256])
{
    bool found = false;
    pretend_lock();
    for (size_t i = 0; i < n_told && !found; i++) {
        found = memcmp(&told[i].id, id, sizeof *id) == 0;
        if (found)
            memcpy(ret, told[i].key, 256);
    }
    pretend_unlock();
    return found;
}

/* The group of @n ranks whose name stands in @name, a whole word of it; else the last one told of where the caller is @rank; false where none was. @n 0: not
 * known. */
static bool find_group(const char *name, int n, int rank, Group *ret)
{
    bool found = false, named = false;
    pretend_lock();
    for (size_t i = 0; i < n_groups; i++) {
        const Group *group = &groups[i];
        if ((n > 0 && group->n != n) || (rank >= 0 && group->rank != rank))
            continue;
        const char *at = name && *group->name ? strstr(name, group->name) : NULL;
        size_t length = strlen(group->name);
        bool is_named = at && !isalnum((unsigned char)at[length]) && (at == name || !isalnum((unsigned char)at[-1])); /* some names are hashes */
        if (named && !is_named)
            continue;
        *ret = *group;
        named = named || is_named;
        found = true;
    }
    pretend_unlock();
    return found;
}

/* What a communicator connects, each with buffers of its own: a bit each. */
enum { RING = 1, TREE = 2, MULTICAST = 4, SHARED = 8, N_PARTS = 4 };

typedef struct {
    int n, rank, device, stride;
    int local;                     /* ranks of it on a host */
    uint64_t id;                   /* the same in the processes of all its ranks */
    uint64_t n_splits;             /* communicators that were split from it */
    void *parts[N_PARTS], **peers; /* their device memory; of peers on this host by rank */
} Communicator;

/* FNV-1a of @n bytes, behind @before. */
static uint64_t mix(uint64_t before, const void *bytes, size_t n)
{
    uint64_t hash = before ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* ncclConfig_t begins with its size, a magic number and a version; what a user sets stands behind. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, min_blocks, max_blocks;
    const char *network;
    int share, traffic_class;
    const char *name;
} Config;

static const char *name_of(const void *config)
{
    const Config *c = config;
    return c && c->size >= sizeof *c ? c->name : NULL;
}

/* ---- device memory of NCCL's own: its init.cc, transport.cc, graph/connect.cc, graph/paths.cc, graph/search.cc, transport/p2p.cc, transport/net.cc and
 * transport/nvls.cc, 2.14.3 to 2.27.5 ----
 *
 * A connection of two GPUs on one channel takes 2 MiB at the sender and 10 MiB at the receiver: 512 KiB of LL, 4800 KiB of LL128, 4 MiB of Simple and a few
 * counters, in whole 2 MiB; 6 and 6 MiB on A100s, where receivers read. A ring has one to send and one to receive; a tree, a chain within a host in the order
 * of the ring, the same the other way: its first GPU only receives so, its last only sends, and of two GPUs it is the ring again, whose connections serve both.
 * Those over the network are taken to be as large. */
#define CONNECTION ((uint64_t)12 << 20)
#define RECEIVER(device) ((uint64_t)((device)->major == 8 && (device)->minor == 0 ? 6 : 10) << 20)
#define MULTICAST_BUFFER ((uint64_t)1 << 20) /* eight steps of 128 KiB */

static int real_version;

static void ask_version(void)
{
    static const char *const libraries[] = {"libnccl.so.2", NULL};
    void *symbol = pretend_real_symbol("ncclGetVersion", libraries);
    int (*ask)(int *);
    memcpy(&ask, &symbol, sizeof symbol);
    if (symbol)
        ask(&real_version);
}

/* Of the program's own NCCL: 22105; 0 where it has none. */
static int version(void)
{
    static pthread_once_t asked = PTHREAD_ONCE_INIT;
    pthread_once(&asked, ask_version);
    return real_version;
}

/* Connections are made when a communicator is before 2.22, and when they are first needed from then on, when nothing is shared for the network. */
static bool connects_early(void)
{
    return version() > 0 && version() < 22200;
}

static uint64_t part_bytes(const Communicator *c, int part)
{
    const PretendDevice *d = pretend_device();
    if (part == MULTICAST) { /* NVLink SHARP: of more than two GPUs behind switches that reduce; up to 2.21 each buffer had 2 MiB for its counters */
        uint64_t channels = d->major < 10 ? 16 : c->local < c->n ? 32 : 24, buffer = MULTICAST_BUFFER + (connects_early() ? (uint64_t)2 << 20 : 0);
        return d->major >= 9 && d->links > 0 && c->local > 2 ? channels * 2 * buffer * (uint64_t)c->local : 0;
    }
    /* Rings as the search finds them, twice: 12 of 20 GB/s on an A100, of 30 on an H100; one for each of a V100's links; one over PCIe or of one GPU a host. */
    uint64_t channels = 2 * (uint64_t)(c->local == 1 || d->links == 0 ? 1 : d->links < 12 ? d->links : 12);
    if (part == SHARED) { /* for messages over the network, also where there is none: 16 steps for each of channels in a power of two */
        uint64_t power = 1, step = (uint64_t)(c->local < c->n || d->links == 0 ? 128 : 512) << 10;
        while (power < channels)
            power *= 2;
        return power * 16 * step;
    }
    if (part == TREE && c->local == c->n)
        return channels * (c->n == 2 ? 0 : c->rank == 0 ? RECEIVER(d) : c->rank == c->n - 1 ? CONNECTION - RECEIVER(d) : CONNECTION);
    return channels * CONNECTION;
}

/* Memory for @parts, where they have none yet; false where the device has no room. */
static bool connect_parts(Communicator *c, int parts)
{
    bool all = true;
    for (int i = 0; i < N_PARTS && c->n > 1; i++) {
        uint64_t bytes = parts & 1 << i && !c->parts[i] ? part_bytes(c, 1 << i) : 0;
        if (bytes > 0)
            all = (c->parts[i] = pretend_allocate(c->device, bytes, PRETEND_LIBRARY, NULL, false)) != NULL && all;
    }
    return all;
}

/* 32 channels between GPUs behind switches, two where the group has others on other hosts, or over PCIe. */
static uint64_t peer_channels(const Communicator *c)
{
    return c->local < c->n || pretend_device()->links < 12 ? 2 : 32;
}

/* For messages to and from @peer on this host. */
static bool connect_peer(Communicator *c, int peer)
{
    if (peer == c->rank || peer / c->local != c->rank / c->local || peer < 0 || peer >= c->n)
        return true;
    if (!c->peers && !(c->peers = calloc((size_t)c->n, sizeof *c->peers)))
        return false;
    if (!c->peers[peer])
        c->peers[peer] = pretend_allocate(c->device, peer_channels(c) * CONNECTION, PRETEND_LIBRARY, NULL, false);
    return c->peers[peer] != NULL;
}

static int forget(void *communicator)
{
    Communicator *c = communicator;
    for (int i = 0; c && i < N_PARTS; i++)
        if (c->parts[i])
            pretend_free(c->parts[i], NULL, false);
    for (int i = 0; c && c->peers && i < c->n; i++)
        if (c->peers[i])
            pretend_free(c->peers[i], NULL, false);
    if (c)
        free(c->peers);
    free(c);
    return SUCCESS;
}

static int create_on(int device, void **ret, int n, int rank, const Group *group, uint64_t id)
{
    if (n < 1 || rank < 0 || rank >= n)
        return INVALID_ARGUMENT;
    Communicator *communicator = calloc(1, sizeof *communicator);
    if (!communicator)
        return SYSTEM_ERROR;
    int stride = group ? group->stride : 1, host = (int)pretend_device()->all_devices / (stride > 0 ? stride : 1);
    *communicator = (Communicator){.n = n, .rank = rank, .device = device, .stride = stride, .local = host < 1 ? 1 : host < n ? host : n, .id = id};
    if (connects_early() && !connect_parts(communicator, RING | TREE | MULTICAST | SHARED)) {
        forget(communicator);
        return CUDA_ERROR;
    }
    *ret = communicator;
    return SUCCESS;
}

static int create(void **ret, int n, int rank, const Group *group, uint64_t id)
{
    return create_on(pretend_current_device(), ret, n, rank, group, id);
}

PRETEND_EXPORT int ncclGetUniqueId(void *ret)
{
    return getrandom(ret, 128, 0) == 128 ? SUCCESS : SYSTEM_ERROR;
}

PRETEND_EXPORT int ncclCommGetUniqueId(void *communicator, void *ret)
{
    (void)communicator;
    return ncclGetUniqueId(ret);
}

PRETEND_EXPORT int ncclCommInitRankConfig(void **ret, int n, UniqueId id, int rank, void *config)
{
    Group group;
    char key[256];
    const char *name = name_of(config);
    /* Of a rank that is alone, every other rank's process has an id of its own under the key. */
    bool kept = find_key(&id, key);
    uint64_t identity = kept ? mix(0, key, strlen(key)) : mix(0, &id, sizeof id);
    return create(ret, n, rank, find_group(!name && kept ? key : name, n, rank, &group) ? &group : NULL, identity);
}

PRETEND_EXPORT int ncclCommInitRank(void **ret, int n, UniqueId id, int rank)
{
    return ncclCommInitRankConfig(ret, n, id, rank, NULL);
}

PRETEND_EXPORT int ncclCommInitRankScalable(void **ret, int n, int rank, int n_ids, void *ids, void *config)
{
    (void)n_ids;
    UniqueId id;
    memcpy(&id, ids, sizeof id);
    return ncclCommInitRankConfig(ret, n, id, rank, config);
}

PRETEND_EXPORT int ncclCommInitAll(void **ret, int n, const int *devices)
{
    UniqueId id;
    int status = ncclGetUniqueId(&id);
    for (int i = 0; i < n && status == SUCCESS; i++)
        status = create_on(devices ? devices[i] : i, &ret[i], n, i, NULL, mix(0, &id, sizeof id));
    return status;
}

/* Who else gives this colour is not asked: the group was told of before, or is taken to be the whole. */
PRETEND_EXPORT int ncclCommSplit(void *of, int color, int key, void **ret, void *config)
{
    Communicator *whole = of;
    *ret = NULL;
    if (!whole)
        return INVALID_ARGUMENT;
    uint64_t id = mix(mix(whole->id, &whole->n_splits, sizeof whole->n_splits), &color, sizeof color);
    whole->n_splits++;
    if (color < 0) /* NCCL_SPLIT_NOCOLOR */
        return SUCCESS;
    Group group;
    if (find_group(name_of(config), 0, -1, &group))
        return create(ret, group.n, group.rank, &group, id);
    pretend_say_once("the ranks of a split NCCL communicator are not known: it is taken to be the whole group");
    return create(ret, whole->n, key >= 0 && key < whole->n ? key : whole->rank, &(Group){.stride = whole->stride}, id);
}

PRETEND_EXPORT int ncclCommShrink(void *of, int *excluded, int n_excluded, void **ret, void *config, int flags)
{
    (void)excluded, (void)config, (void)flags;
    Communicator *whole = of;
    int n = whole->n - n_excluded;
    uint64_t id = mix(whole->id, &whole->n_splits, sizeof whole->n_splits);
    whole->n_splits++;
    return create(ret, n, whole->rank < n ? whole->rank : n - 1, &(Group){.stride = whole->stride}, id);
}

PRETEND_EXPORT int ncclCommDestroy(void *communicator)
{
    return forget(communicator);
}

PRETEND_EXPORT int ncclCommAbort(void *communicator)
{
    return forget(communicator);
}

PRETEND_EXPORT int ncclCommFinalize(void *communicator)
{
    (void)communicator;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommRevoke(void *communicator, int flags)
{
    (void)communicator, (void)flags;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommSuspend(void *communicator, int flags)
{
    (void)communicator, (void)flags;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommResume(void *communicator)
{
    (void)communicator;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommCount(const void *communicator, int *ret)
{
    *ret = ((const Communicator *)communicator)->n;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommUserRank(const void *communicator, int *ret)
{
    *ret = ((const Communicator *)communicator)->rank;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommCuDevice(const void *communicator, int *ret)
{
    *ret = ((const Communicator *)communicator)->device;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommGetAsyncError(void *communicator, int *ret)
{
    (void)communicator;
    *ret = SUCCESS;
    return SUCCESS;
}

PRETEND_EXPORT const char *ncclGetLastError(void *communicator)
{
    (void)communicator;
    return "";
}

PRETEND_EXPORT int ncclCommMemStats(void *communicator, int which, uint64_t *ret)
{
    (void)communicator, (void)which;
    *ret = 0;
    return SUCCESS;
}

static int handle; /* its address stands for what is registered */

PRETEND_EXPORT int ncclCommRegister(const void *communicator, void *memory, size_t bytes, void **ret)
{
    (void)communicator, (void)memory, (void)bytes;
    *ret = &handle;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommDeregister(const void *communicator, void *registered)
{
    (void)communicator, (void)registered;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommWindowRegister(void *communicator, void *memory, size_t bytes, void **ret, int flags)
{
    (void)communicator, (void)memory, (void)bytes, (void)flags;
    *ret = &handle;
    return SUCCESS;
}

PRETEND_EXPORT int ncclCommWindowDeregister(void *communicator, void *window)
{
    (void)communicator, (void)window;
    return SUCCESS;
}

PRETEND_EXPORT int ncclMemAlloc(void **ret, size_t bytes)
{
    *ret = pretend_allocate(pretend_current_device(), bytes, PRETEND_DEVICE, NULL, false);
    return *ret || bytes == 0 ? SUCCESS : CUDA_ERROR;
}

PRETEND_EXPORT int ncclMemFree(void *memory)
{
    return !memory || pretend_free(memory, NULL, false) ? SUCCESS : INVALID_ARGUMENT;
}

PRETEND_EXPORT int ncclRedOpCreatePreMulSum(int *ret, void *scalar, int type, int residence, void *communicator)
{
    (void)scalar, (void)type, (void)residence, (void)communicator;
    *ret = 5; /* the first behind NCCL's own */
    return SUCCESS;
}

PRETEND_EXPORT int ncclRedOpDestroy(int operation, void *communicator)
{
    (void)operation, (void)communicator;
    return SUCCESS;
}

/* ---- what is asked of a group ---- */

/* @meets: "meets NUMBER ...", who takes part, and "sends BYTES NUMBER ...", to whom at once: the same numbers wherever somebody does. */
static void write_collective(void *stream, const char *name, uint64_t bytes, int ranks, int stride, const char *meets)
{
    if (bytes == 0 || ranks < 2) {
        pretend_no_uses();
        return;
    }
    pretend_work("collective", stream, "%u %" PRIu64 " %d %d%s", pretend_name(name), bytes, ranks, stride, meets);
    pretend_stream_communicates(stream);
}

static void write_of_all(const Communicator *c, void *stream, const char *name, uint64_t bytes)
{
    char meets[32];
    snprintf(meets, sizeof meets, "\nmeets %" PRIu64, c->id);
    write_collective(stream, name, bytes, c->n, c->stride, meets);
}

/* Of all ranks of @c, by rings; an all-reduce by trees too, or by switches that reduce. */
static bool collect(Communicator *c, void *stream, const char *name, uint64_t bytes, bool reduces_all)
{
    if (bytes > 0 && !connect_parts(c, reduces_all ? part_bytes(c, MULTICAST) > 0 ? RING | MULTICAST : RING | TREE : RING))
        return false;
    write_of_all(c, stream, name, bytes);
    return true;
}

static bool connect_peers(Communicator *c)
{
    for (int peer = 0; peer < c->n; peer++)
        if (!connect_peer(c, peer))
            return false;
    return true;
}

/* @read bytes of @from and @written bytes of @to; NULL where this rank has none. */
static void tell(const void *from, uint64_t read, const void *to, uint64_t written)
{
    pretend_use(PRETEND_READS, from, read);
    pretend_use(PRETEND_WRITES, to, written);
}

/* @n pieces of @bytes that lie side by side from @to on, each as the one at @from, of @whole (pretend_carry_piece()): so is the array that they make up. */
static void carry_to_all(void *to, const void *from, size_t bytes, int n, const void *whole, size_t whole_bytes)
{
    bool known = bytes * (size_t)n <= PRETEND_COPIED_BYTES;
    for (int i = 0; i < n && known; i++)
        known = pretend_carry_piece((uint8_t *)to + (size_t)i * bytes, from, bytes, whole, whole_bytes);
}

/* What @n ranks with the same operands make of a piece of @whole: only a sum differs. */
static void reduce_piece(void *to, const void *from, size_t count, int type, int operation, int n, const void *whole, size_t whole_bytes)
{
    if (!pretend_carry_piece(to, from, bytes_of(count, type), whole, whole_bytes) || operation != 0) /* ncclSum */
        return;
    for (size_t i = 0; i < count; i++) {
        if (type == 2 || type == 3)
            ((uint32_t *)to)[i] *= (uint32_t)n;
        else if (type == 4 || type == 5)
            ((uint64_t *)to)[i] *= (uint64_t)n;
        else if (type == 7)
            ((float *)to)[i] *= (float)n;
        else if (type == 8)
            ((double *)to)[i] *= n;
    }
}

static void reduce(void *to, const void *from, size_t count, int type, int operation, int n)
{
    reduce_piece(to, from, count, type, operation, n, from, bytes_of(count, type));
}

static __thread size_t own_largest;

/* The caller's all-reduces of up to @largest bytes would be its own kernels', as servers have them, if peers' memory were there; 0: NCCL's again. */
PRETEND_EXPORT void pretend_own_all_reduces(size_t largest)
{
    own_largest = largest;
}

/* The kernel that vLLM's and SGLang's CustomAllreduce launch for @bytes (csrc/custom_all_reduce.cuh of vLLM); NULL where they leave them to NCCL. */
static const char *own_kernel(const Communicator *c, uint64_t bytes)
{
    if (bytes == 0 || bytes > own_largest || bytes % 16 != 0 || c->n % 2 != 0 || c->n > 8 || c->local < c->n)
        return NULL;
    bool whole = c->n == 2 || bytes < (c->n <= 4 ? UINT64_C(512) << 10 : UINT64_C(256) << 10);
    return whole ? "cross_device_reduce_1stage" : "cross_device_reduce_2stage";
}

PRETEND_EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *of, void *stream)
{
    Communicator *c = of;
    const uint64_t bytes = bytes_of(count, type);
    tell(from, bytes, to, bytes);
    const char *own = own_kernel(c, bytes);
    if (own)
        write_of_all(c, stream, own, bytes);
    else if (!collect(c, stream, "all-reduce", bytes, true))
        return CUDA_ERROR;
    reduce(to, from, count, type, operation, c->n);
    return SUCCESS;
}

/* To one rank: priced as its half of an all-reduce is, where it is told apart. */
PRETEND_EXPORT int ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root, void *of, void *stream)
{
    Communicator *c = of;
    const uint64_t bytes = bytes_of(count, type);
    tell(from, bytes, c->rank == root ? to : NULL, bytes);
    if (!collect(c, stream, "reduce-scatter", bytes, false))
        return CUDA_ERROR;
    if (c->rank == root)
        reduce(to, from, count, type, operation, c->n);
    return SUCCESS;
}

/* Broadcasts of a group from each to all are how frameworks gather what differs in length: the caller's own stands for the others'. */
typedef struct {
    const Communicator *communicator;
    const void *own;
    void *to[PRETEND_DEVICES];
    size_t bytes, n;
} Gathering;
static __thread Gathering gathering;

PRETEND_EXPORT int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *of, void *stream)
{
    Communicator *c = of;
    size_t bytes = bytes_of(count, type);
    tell(c->rank == root ? from : NULL, bytes, to, bytes);
    if (!collect(c, stream, "broadcast", bytes, false))
        return CUDA_ERROR;
    pretend_carry(to, from, bytes);
    if (gathering.communicator != c || gathering.bytes != bytes)
        gathering = (Gathering){.communicator = c, .bytes = bytes};
    if (root == c->rank)
        gathering.own = from;
    else if (gathering.n < sizeof gathering.to / sizeof *gathering.to)
        gathering.to[gathering.n++] = to;
    return SUCCESS;
}

PRETEND_EXPORT int ncclBcast(void *memory, size_t count, int type, int root, void *of, void *stream)
{
    return ncclBroadcast(memory, memory, count, type, root, of, stream);
}

PRETEND_EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type, void *of, void *stream)
{
    Communicator *c = of;
    size_t bytes = bytes_of(count, type);
    tell(from, bytes, to, bytes * (size_t)c->n);
    if (!collect(c, stream, "all-gather", bytes, false))
        return CUDA_ERROR;
    carry_to_all(to, from, bytes, c->n, from, bytes);
    return SUCCESS;
}

/* To one rank: what it takes in is what each takes in of an all-gather. */
PRETEND_EXPORT int ncclGather(const void *from, void *to, size_t count, int type, int root, void *of, void *stream)
{
    Communicator *c = of;
    size_t bytes = bytes_of(count, type);
    tell(from, bytes, c->rank == root ? to : NULL, bytes * (size_t)c->n);
    if (!collect(c, stream, "all-gather", bytes, false))
        return CUDA_ERROR;
    if (c->rank == root)
        carry_to_all(to, from, bytes, c->n, from, bytes);
    return SUCCESS;
}

PRETEND_EXPORT int ncclScatter(const void *from, void *to, size_t count, int type, int root, void *of, void *stream)
{
    Communicator *c = of;
    size_t bytes = bytes_of(count, type);
    tell(c->rank == root ? from : NULL, bytes * (size_t)c->n, to, bytes);
    if (!collect(c, stream, "broadcast", bytes * (size_t)c->n, false))
        return CUDA_ERROR;
    if (c->rank == root)
        pretend_carry_piece(to, (const uint8_t *)from + (size_t)c->rank * bytes, bytes, from, bytes * (size_t)c->n);
    return SUCCESS;
}

PRETEND_EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation, void *of, void *stream)
{
    Communicator *c = of;
    size_t bytes = bytes_of(count, type);
    tell(from, bytes * (size_t)c->n, to, bytes);
    if (!collect(c, stream, "reduce-scatter", bytes * (size_t)c->n, false))
        return CUDA_ERROR;
    reduce_piece(to, (const uint8_t *)from + (size_t)c->rank * bytes, count, type, operation, c->n, from, bytes * (size_t)c->n);
    return SUCCESS;
}

PRETEND_EXPORT int ncclAlltoAll(const void *from, void *to, size_t count, int type, void *of, void *stream)
{
    Communicator *c = of;
    size_t bytes = bytes_of(count, type);
    tell(from, bytes * (size_t)c->n, to, bytes * (size_t)c->n);
    if (bytes > 0 && !connect_peers(c))
        return CUDA_ERROR;
    write_of_all(c, stream, "all-to-all", bytes * (size_t)c->n);
    carry_to_all(to, (const uint8_t *)from + (size_t)c->rank * bytes, bytes, c->n, from, bytes * (size_t)c->n);
    return SUCCESS;
}

/* ---- from one to one; those of a group that go to all are an all-to-all ---- */

typedef struct {
    Communicator *communicator;
    void *stream;
    uint64_t bytes;
    int peer;
    bool sends;
    const void *memory;
} Message;

static __thread struct {
    int depth;
    Message *messages;
    size_t n, room;
} group;

void pretend_forget_messages(void)
{
    free(group.messages);
    group.messages = NULL;
    group.n = group.room = 0;
}

/* Of messages that are one launch: how many go which way, and how much. */
typedef struct {
    uint64_t sent, received, kept, n_sent, n_received; /* kept: sent to itself */
    int farthest;                                      /* peer */
    char *words[2];                                    /* " NUMBER ...": whom it receives from, whom it sends to */
    size_t n_words[2];
} Exchange;

/* Bytes to one peer that may be under way before it receives: NCCL's FIFO of 8 steps a channel, of 512 KiB each over NVLink within a host and 128 KiB else
 * (2.27's init.cc, computeBuffSizes), and the channels of connect_peer. */
static uint64_t buffer_bytes(const Communicator *c)
{
    bool near = c->local == c->n && pretend_device()->links >= 12;
    return peer_channels(c) * 8 * (near ? 512 << 10 : 128 << 10);
}

static bool add_message(Exchange *e, const Message *m)
{
    const Communicator *c = m->communicator;
    int ends[2] = {m->sends ? c->rank : m->peer, m->sends ? m->peer : c->rank};
    e->n_sent += m->sends;
    e->n_received += !m->sends;
    *(m->sends ? &e->sent : &e->received) += m->bytes;
    if (abs(m->peer - c->rank) > e->farthest)
        e->farthest = abs(m->peer - c->rank);
    tell(m->sends ? m->memory : NULL, m->bytes, m->sends ? NULL : m->memory, m->bytes);
    enum { ROOM = 24 };
    char **words = &e->words[m->sends];
    char *longer = realloc(*words, e->n_words[m->sends] + ROOM);
    if (!longer)
        return false;
    *words = longer;
    e->n_words[m->sends] += (size_t)snprintf(longer + e->n_words[m->sends], ROOM, " %" PRIu64, mix(c->id, ends, sizeof ends));
    return true;
}

static void write_exchange(const Exchange *e, const Message *head)
{
    const Communicator *c = head->communicator;
    char buffer[24], *meets = malloc(e->n_words[0] + e->n_words[1] + 64);
    if (!meets)
        return;
    snprintf(buffer, sizeof buffer, " %" PRIu64, buffer_bytes(c));
    sprintf(meets, "%s%s%s%s%s", e->n_received > 0 ? "\nmeets" : "", e->n_received > 0 ? e->words[0] : "", e->n_sent > 0 ? "\nsends" : "",
            e->n_sent > 0 ? buffer : "", e->n_sent > 0 ? e->words[1] : "");
    uint64_t others = (uint64_t)c->n - 1;
    bool all = others > 1 && e->n_sent >= others && e->n_received >= others;
    if (all)
        write_collective(head->stream, "all-to-all", (e->sent > e->received ? e->sent : e->received) + e->kept, c->n, c->stride, meets);
    else
        write_collective(head->stream,
                         e->n_received == 0 ? "send"
                         : e->n_sent == 0   ? "recv"
                                            : "permute",
                         e->sent > e->received ? e->sent : e->received, 2, e->farthest * c->stride, meets);
    free(meets);
}

static bool same(const Message *a, const Message *b)
{
    return a->communicator == b->communicator && a->stream == b->stream;
}

/* An all-to-all of messages: what each sends this one is as what this one sends itself, if all of it is known. Sizes that ranks tell one another are so. */
static void carry_messages(const Message *messages, size_t n, const Message *head)
{
    const Message *own = NULL, *lowest = NULL;
    size_t sent = 0;
    for (size_t i = 0; i < n; i++) {
        const Message *m = &messages[i];
        if (!m->sends || !same(m, head))
            continue;
        own = m->peer == head->communicator->rank ? m : own;
        lowest = !lowest || m->memory < lowest->memory ? m : lowest;
        sent += m->bytes;
    }
    bool known = own && sent <= PRETEND_COPIED_BYTES;
    for (size_t i = 0; known && i < n; i++) {
        const Message *m = &messages[i];
        if (m->sends || !same(m, head))
            continue;
        known = m->bytes == own->bytes && pretend_carry_piece((void *)(uintptr_t)m->memory, own->memory, own->bytes, lowest->memory, sent);
    }
}

/* All messages from @first on that are one launch with it: sent and received at once, and over when all are. */
static bool write_messages(Message *first, size_t n)
{
    const Message head = *first;
    Communicator *c = head.communicator;
    Exchange e = {0};
    bool room = true;
    carry_messages(first, n, &head);
    for (size_t i = 0; i < n; i++) {
        if (!same(&first[i], &head))
            continue;
        bool other = first[i].peer != c->rank && first[i].bytes > 0;
        room = room && (!other || (connect_peer(c, first[i].peer) && add_message(&e, &first[i])));
        e.kept += first[i].peer == c->rank && first[i].sends ? first[i].bytes : 0;
        first[i].communicator = NULL;
    }
    if (room && e.n_sent + e.n_received > 0)
        write_exchange(&e, &head);
    else
        pretend_no_uses();
    free(e.words[0]);
    free(e.words[1]);
    return room;
}

static int end_group(void)
{
    bool room = true;
    for (size_t i = 0; i < gathering.n && gathering.own; i++)
        pretend_carry(gathering.to[i], gathering.own, gathering.bytes);
    gathering = (Gathering){0};
    for (size_t i = 0; i < group.n; i++)
        if (group.messages[i].communicator)
            room = write_messages(&group.messages[i], group.n - i) && room;
    group.n = 0;
    return room ? SUCCESS : CUDA_ERROR;
}

static int message(void *communicator, void *stream, const void *memory, uint64_t bytes, int peer, bool sends)
{
    Message m = {.communicator = communicator, .stream = stream, .bytes = bytes, .peer = peer, .sends = sends, .memory = memory};
    if (group.depth > 0 && group.n == group.room) {
        size_t room = group.room ? 2 * group.room : 64;
        Message *larger = realloc(group.messages, room * sizeof *larger);
        if (!larger)
            return SYSTEM_ERROR;
        group.messages = larger;
        group.room = room;
    }
    if (group.depth > 0)
        group.messages[group.n++] = m;
    else if (!write_messages(&m, 1))
        return CUDA_ERROR;
    return SUCCESS;
}

PRETEND_EXPORT int ncclGroupStart(void)
{
    if (group.depth++ == 0)
        gathering = (Gathering){0};
    return SUCCESS;
}

PRETEND_EXPORT int ncclGroupEnd(void)
{
    if (group.depth < 1)
        return INVALID_USAGE;
    return --group.depth == 0 ? end_group() : SUCCESS;
}

PRETEND_EXPORT int ncclGroupSimulateEnd(void *ret)
{
    (void)ret;
    return ncclGroupEnd();
}

PRETEND_EXPORT int ncclSend(const void *from, size_t count, int type, int peer, void *of, void *stream)
{
    return message(of, stream, from, bytes_of(count, type), peer, true);
}

PRETEND_EXPORT int ncclRecv(void *to, size_t count, int type, int peer, void *of, void *stream)
{
    return message(of, stream, to, bytes_of(count, type), peer, false);
}

/* Of kernels that communicate themselves: not supported. */
#define REFUSED(name)                                                                                                                                          \
    PRETEND_EXPORT int name(void)                                                                                                                              \
    {                                                                                                                                                          \
        pretend_say_once(#name " is not supported on a pretended GPU");                                                                                        \
        return INVALID_USAGE;                                                                                                                                  \
    }
REFUSED(ncclCommGrow)
REFUSED(ncclDevCommCreate)
REFUSED(ncclDevCommDestroy)
REFUSED(ncclGetLsaMultimemDevicePointer)
REFUSED(ncclGetPeerDevicePointer)
REFUSED(ncclPutSignal)
REFUSED(ncclSignal)
REFUSED(ncclWaitSignal)
REFUSED(ncclWinGetUserPtr)
