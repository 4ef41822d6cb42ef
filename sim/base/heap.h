/** @file heap.h
 * Binary heaps in a GArray: the first of its elements, by the caller's order, stands at 0.
 */
#pragma once
#include <glib.h>
#include <string.h>

/** Adds the element at @item. @compare sees two elements and @data; below 0: the first comes first. */
static inline void ech_heap_push(GArray *heap, gconstpointer item, GCompareDataFunc compare, gpointer data)
{
    gsize size = g_array_get_element_size(heap);
    guint at = heap->len;
    g_array_set_size(heap, at + 1);
    for (; at > 0 && compare(item, heap->data + (at - 1) / 2 * size, data) < 0; at = (at - 1) / 2)
        memcpy(heap->data + at * size, heap->data + (at - 1) / 2 * size, size);
    memcpy(heap->data + at * size, item, size);
}

/** Takes the first element of a heap that is not empty, to @ret. */
static inline void ech_heap_pop(GArray *heap, gpointer ret, GCompareDataFunc compare, gpointer data)
{
    gsize size = g_array_get_element_size(heap);
    guint n = heap->len - 1, at = 0;
    const char *last = heap->data + n * size;
    memcpy(ret, heap->data, size);
    for (guint child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && compare(heap->data + (child + 1) * size, heap->data + child * size, data) < 0)
            child++;
        if (compare(last, heap->data + child * size, data) <= 0)
            break;
        memcpy(heap->data + at * size, heap->data + child * size, size);
        at = child;
    }
    memmove(heap->data + at * size, last, size);
    g_array_set_size(heap, n);
}
