/* What launches of kernels move whose PTX the program carries. Launches that differ by where their arrays lie alone move the same of each. */
#include "pretend.h"
#include "ptx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A move, from an address among the parameters on. */
typedef struct {
    uint32_t word; /* Among those of a launch that are addresses; NO_WORD: @from is the address itself. */
    uint64_t from, bytes;
    bool writes;
} Move;
#define NO_WORD UINT32_MAX

typedef struct {
    uint64_t key[2]; /* of kernel, shape and all parameters that are no addresses; 0, 0: none */
    Move *moves;     /* NULL: it cannot be told, or moves nothing */
    size_t n;
    bool told;
    PretendComputed computed;
} Launch;

enum { LAUNCHES = 1 << 14, WORDS = 4096 };
/* A kernel's first launches are looked at more closely than the many that may follow, each of another size; one that cannot be told, twice. */
enum { FIRST_LAUNCHES = 8, ENOUGH = 500000, ENOUGH_LATER = 50000, MOST = 16000000, MOST_UNTOLD = 2 };

static Launch *launches;
static size_t n_launches;

static void mix(uint64_t key[2], uint64_t word)
{
    key[0] = (key[0] ^ word) * UINT64_C(0x100000001b3);
    key[0] ^= key[0] >> 29;
    key[1] = (key[1] + word + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    key[1] ^= key[1] >> 31;
}

/* Key of a launch, and the addresses among its parameters: words[n]. */
static size_t read_words(const PretendKernelCode *code, void *const *arguments, const PtxLaunch *launch, uint64_t key[2], uint64_t *words)
{
    size_t n = 0;
    key[0] = key[1] = code->number;
    for (int i = 0; i < 3; i++) {
        mix(key, launch->grid[i]);
        mix(key, launch->block[i]);
    }
    mix(key, launch->dynamic_shared);
    for (size_t i = 0; i < code->n_parameters; i++)
        for (size_t at = 0; arguments[i] && at < code->parameters[i]; at += sizeof(uint64_t)) {
            uint64_t word = 0, left = code->parameters[i] - at;
            memcpy(&word, (const uint8_t *)arguments[i] + at, left < sizeof word ? left : sizeof word);
            bool is_address = left >= sizeof word && n < WORDS && pretend_is_address(word);
            if (is_address)
                words[n++] = word;
            mix(key, is_address ? UINT64_C(0x5ca1ab1e) : word);
        }
    key[0] |= 1;
    return n;
}

/* Those of a program that launches ever new ones are forgotten, all at once. */
static void forget_launches(void)
{
    for (size_t i = 0; i < LAUNCHES; i++)
        free(launches[i].moves);
    memset(launches, 0, LAUNCHES * sizeof *launches);
    n_launches = 0;
}

static Launch *slot_of(const uint64_t key[2])
{
    if (!launches)
        launches = calloc(LAUNCHES, sizeof *launches);
    if (!launches)
        return NULL;
    if (n_launches > LAUNCHES / 2)
        forget_launches();
    size_t slot = key[1] % LAUNCHES;
    while (launches[slot].key[0] != 0 && memcmp(launches[slot].key, key, sizeof launches[slot].key) != 0)
        slot = (slot + 1) % LAUNCHES;
    return &launches[slot];
}

static bool peek(uint64_t address, unsigned bytes, uint64_t *ret)
{
    if (!pretend_known((const void *)(uintptr_t)address, bytes))
        return false;
    memcpy(ret, (const void *)(uintptr_t)address, bytes);
    return true;
}

static uint64_t end_of(uint64_t address)
{
    PretendBlock block;
    return pretend_find((const void *)(uintptr_t)address, &block) ? block.address + block.bytes : 0;
}

/* The address that it is likeliest reached from: the nearest one below in the same allocation, else the nearest above. */
static uint32_t nearest(const uint64_t *words, size_t n, uint64_t address)
{
    PretendBlock block;
    uint32_t below = NO_WORD, above = NO_WORD;
    if (!pretend_find((const void *)(uintptr_t)address, &block))
        return NO_WORD;
    for (size_t i = 0; i < n; i++) {
        if (words[i] < block.address || words[i] >= block.address + block.bytes)
            continue;
        if (words[i] <= address && (below == NO_WORD || words[i] > words[below]))
            below = (uint32_t)i;
        if (words[i] > address && (above == NO_WORD || words[i] < words[above]))
            above = (uint32_t)i;
    }
    return below != NO_WORD ? below : above;
}

/* Runs it. */
static void find_moves(const PretendKernelCode *code, PtxKernel *ptx, const PtxLaunch *launch, const uint64_t *words, size_t n_words, Launch *ret)
{
    PtxMoves found;
    bool told = ptx->n_untold < MOST_UNTOLD && ptx_moves(ptx, launch, &found);
    *(told ? &ptx->n_told : &ptx->n_untold) += 1;
    if (!told)
        return;
    ret->moves = malloc((found.n + 1) * sizeof *ret->moves);
    if (!ret->moves)
        return;
    for (size_t i = 0; i < found.n; i++) {
        uint32_t word = nearest(words, n_words, found.moves[i].address);
        ret->moves[i] = (Move){word, found.moves[i].address - (word == NO_WORD ? 0 : words[word]), found.moves[i].bytes, found.moves[i].writes};
    }
    ret->n = found.n;
    ret->told = true;
    ret->computed = (PretendComputed){.products = *ptx->multiplied ? found.multiplied : 0,
                                      .lanes = found.flops,
                                      .lanes_64 = found.flops_64,
                                      .issued = found.issued,
                                      .accesses = found.accesses,
                                      .wavefronts = found.wavefronts,
                                      .fetched = found.fetched,
                                      .cycles = found.cycles,
                                      .trips = found.trips,
                                      .barriers = found.barriers,
                                      .atomics = found.atomics,
                                      .crowded = found.crowded,
                                      .slots = found.slots,
                                      .slots_64 = found.slots_64,
                                      .functions = found.functions,
                                      .by_groups = found.by_groups,
                                      .registers = code->registers,
                                      .shared = code->shared};
    memcpy(ret->computed.type, ptx->multiplied, sizeof ret->computed.type);
}

static bool tell(const Launch *launch, const uint64_t *words)
{
    if (!launch->told)
        return false;
    pretend_no_uses();
    for (size_t i = 0; i < launch->n; i++) {
        const Move *move = &launch->moves[i];
        uint64_t address = move->from + (move->word == NO_WORD ? 0 : words[move->word]);
        pretend_use(move->writes ? PRETEND_WRITES : PRETEND_READS, (const void *)(uintptr_t)address, move->bytes);
    }
    if (launch->n == 0)
        pretend_places(0, 0); /* of no array */
    pretend_computes(&launch->computed);
    return true;
}

static uint64_t n_within;

uint64_t pretend_launches_within(void)
{
    return __atomic_load_n(&n_within, __ATOMIC_RELAXED);
}

static uint64_t n_waiting;
static const char *waiting; /* The first kernel of those */

uint64_t pretend_launches_waiting(const char **ret_name)
{
    *ret_name = waiting;
    return n_waiting;
}

static bool is_plain; /* The program has no allocator of Python's libraries, of which it is known that arrays lie within what they take. */
static pthread_once_t plain_once = PTHREAD_ONCE_INIT;

static void find_plain(void)
{
    is_plain = !dlsym(RTLD_DEFAULT, "Py_IsInitialized");
}

/* A kernel without PTX counts for all that lies behind the addresses it is given. That is too much where a program keeps many arrays in one allocation. */
static void count_within(const PretendKernelCode *code, void *const *arguments)
{
    pthread_once(&plain_once, find_plain);
    uint64_t words[WORDS], key[2];
    size_t n = is_plain ? read_words(code, arguments, &(PtxLaunch){0}, key, words) : 0;
    for (size_t i = 0; i < n; i++) {
        PretendBlock block;
        if (pretend_find((const void *)(uintptr_t)words[i], &block) && block.address != words[i]) {
            __atomic_add_fetch(&n_within, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

bool pretend_moves(const PretendKernelCode *code, void *const *arguments, PretendDim grid, PretendDim block, size_t shared)
{
    /* PyTorch's own are told by their operators. */
    bool by_operator = strstr(code->name, "2at6native") != NULL;
    PtxKernel *ptx = by_operator ? NULL : pretend_code_ptx(code);
    if (!ptx) {
        if (!by_operator)
            count_within(code, arguments);
        return false;
    }
    uint64_t variables[16] = {0}, words[WORDS], key[2];
    for (uint32_t i = 0, n = ptx->n_variables; i < n && i < 16; i++) {
        uint64_t bytes;
        variables[i] = (uint64_t)(uintptr_t)pretend_code_variable(code->of, ptx->variables[i], &bytes);
    }
    const PtxLaunch launch = {.grid = {grid.x, grid.y, grid.z},
                              .block = {block.x, block.y, block.z},
                              .dynamic_shared = shared,
                              .enough = ptx->n_told < FIRST_LAUNCHES ? ENOUGH : ENOUGH_LATER,
                              .most = MOST,
                              .parameters = arguments,
                              .parameter_bytes = code->parameters,
                              .n_parameters = code->n_parameters,
                              .variables = variables,
                              .peek = peek,
                              .end = end_of};
    size_t n = read_words(code, arguments, &launch, key, words);
    pretend_lock();
    Launch *slot = ptx->n_variables <= 16 ? slot_of(key) : NULL;
    if (slot && slot->key[0] == 0) {
        memcpy(slot->key, key, sizeof slot->key);
        n_launches++;
        find_moves(code, ptx, &launch, words, n, slot);
    }
    bool told = slot && tell(slot, words);
    if (!told && ptx->waits) {
        n_waiting++;
        waiting = waiting ? waiting : strdup(code->name);
    }
    pretend_unlock();
    return told;
}
