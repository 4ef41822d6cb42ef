/* An example of echelon's allocator plugin: free blocks of each power of two on a stack, new ones from the top of the memory.
 *
 * Build it anywhere, with one line:
 *     gcc -std=c99 -O2 -shared -fPIC -I DIRECTORY_OF_echelon_allocator.h -o stacks.so stacks.c
 * and run it:
 *     echelon alloc TRACE --allocator plugin:./stacks.so,smallest=512
 */
#include "echelon_allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t *items;
    size_t n, allocated;
} Stack;

typedef struct {
    uint64_t capacity, top;
    unsigned smallest;     /* log2 of the smallest block */
    Stack stacks[64];      /* free blocks by log2 of their bytes */
    unsigned char *orders; /* by id */
    size_t n_orders;
} Allocator;

static void *create(uint64_t capacity, const char *const *keys, const char *const *values, uint32_t n, char *message, size_t n_message)
{
    Allocator *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->capacity = capacity;
    self->smallest = 8;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(keys[i], "smallest") != 0) {
            snprintf(message, n_message, "'%s' is no setting; expected smallest", keys[i]);
            free(self);
            return NULL;
        }
        for (self->smallest = 0; self->smallest < 30 && (1u << self->smallest) < strtoul(values[i], NULL, 10);)
            self->smallest++;
    }
    return self;
}

static int place(void *data, uint32_t id, uint64_t bytes, uint32_t stream, uint64_t *address, uint64_t *rounded)
{
    Allocator *self = data;
    unsigned order = self->smallest;
    (void)stream;
    while (order < 63 && ((uint64_t)1 << order) < bytes)
        order++;
    if (id >= self->n_orders) {
        size_t more = (size_t)id * 2 + 64;
        unsigned char *grown = realloc(self->orders, more);
        if (!grown)
            return 1;
        self->orders = grown;
        self->n_orders = more;
    }
    Stack *stack = &self->stacks[order];
    *rounded = (uint64_t)1 << order;
    if (stack->n > 0)
        *address = stack->items[--stack->n];
    else if (*rounded <= self->capacity - self->top) {
        *address = self->top;
        self->top += *rounded;
    } else {
        return 1;
    }
    self->orders[id] = (unsigned char)order;
    return 0;
}

static void release(void *data, uint32_t id, uint64_t address)
{
    Allocator *self = data;
    Stack *stack = &self->stacks[self->orders[id]];
    if (stack->n == stack->allocated) {
        size_t more = stack->allocated * 2 + 16;
        uint64_t *grown = realloc(stack->items, more * sizeof *grown);
        if (!grown)
            return; /* the block is lost, nothing worse */
        stack->items = grown;
        stack->allocated = more;
    }
    stack->items[stack->n++] = address;
}

static void destroy(void *data)
{
    Allocator *self = data;
    for (unsigned i = 0; i < 64; i++)
        free(self->stacks[i].items);
    free(self->orders);
    free(self);
}

const echelon_allocator *echelon_allocator_get(uint32_t version)
{
    static const echelon_allocator stacks = {ECHELON_ALLOCATOR_VERSION, "stacks", create, place, release, NULL, NULL, destroy};
    return version >= ECHELON_ALLOCATOR_VERSION ? &stacks : NULL;
}
