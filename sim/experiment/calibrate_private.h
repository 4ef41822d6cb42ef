/** @file calibrate_private.h
 * What the files of calibration share: the bench that everything is measured on, how it is timed, and the steps. Short type names, because nothing else
 * includes it.
 *
 * calibrate.c sets the bench up, goes through the steps and gives everything back; calibrate_bench.c times; calibrate_runtime.c measures launches, graphs and
 * allocations, calibrate_copies.c what goes over the host link, calibrate_host.c what its processors do with its memory, calibrate_memory.c device memory and
 * cache, calibrate_compute.c arithmetic; calibrate_file.c writes it all down. All device times come from events, all host times from the monotonic clock.
 *
 * Every function that returns bool returns false with ECH_ERROR_BACKEND set.
 */
#pragma once
#include "sim/experiment/calibrate.h"
#include "sim/replay/cuda_blas.h"

enum { REPEATS = 11, MOST_EVENTS = 64 };

/* Everything held while measuring; tear_down gives it back whatever was reached. */
typedef struct {
    const EchCuDriver *cu;
    EchCuGpu gpu;
    EchCuModule module;
    EchCuFunction stream_kernel, strided, random, chase, fma, fma64, exponential, mma, spin, noise;
    EchCuStream streams[3]; /* The third for what the other two are measured beside */
    EchCuEvent events[2][MOST_EVENTS];
    EchCuPointer a, b, sink; /* Two halves of the device memory in use: a is read only, and stays the noise that products multiply; b takes what is written */
    EchBytes half;           /* Bytes of each, a power of two */
    EchBytes cursor;         /* Where in each half the next kernel reads and writes, if it is one of many: not what the cache holds */
    void *pinned[2], *pageable;
    EchBytes host_cursor; /* The same of pageable */
    EchBytes host_bytes;  /* Of each, a power of two */
    const EchCuBlas *blas;
    EchCuBlasHandle handle;
    EchCuPointer workspace;
    size_t workspace_bytes;
    uint64_t patience;  /* Times the usual head start */
    unsigned late;      /* Measurements that it was too short for all the same */
    EchGpuWatch *watch; /* NULL: no NVML */
    uint64_t taken;     /* Of the GPU's memory, by whomever, beside an empty context */
    EchGpuState *state; /* What is seen of the GPU in this step goes here */
    EchCalibration *result;
} Bench;

#define CU(b, member, what, error, ...) ech_cuda_check((b)->cu, (b)->cu->member(__VA_ARGS__), #member, what, error)

/* ---- calibrate_bench.c: timing ---- */

/** What could not be measured, for the file. */
void ech_bench_note_failure(Bench *b, const char *what, const GError *error);
/** Median and spread of values[n]; sorts. */
EchFigure ech_bench_figure(double *values, unsigned n);
/** Nanoseconds of the monotonic clock. */
double ech_bench_host_ns(void);

/** Issues one instance of what is timed. */
typedef bool (*Issue)(Bench *b, EchCuStream stream, const void *data, GError **error);
/** Times @n instances (at most MOST_EVENTS - 3) one after the other in a busy queue, each between two events, the cost of the events taken off. Two more before
 * them warm up. @issue: NULL times the events alone. */
bool ech_bench_time_each(Bench *b, Issue issue, const void *data, unsigned n, EchFigure *ret, GError **error);
/** Times @batch instances together, several times: nanoseconds of one. */
bool ech_bench_time_batch(Bench *b, Issue issue, const void *data, unsigned batch, EchFigure *ret, GError **error);
/** Keeps queue 0 busy while @calls driver calls are made behind it, so that it never waits for the host. */
bool ech_bench_head_start(Bench *b, unsigned calls, GError **error);
/** The same of any queue. */
bool ech_bench_occupy(Bench *b, EchCuStream stream, unsigned calls, GError **error);
/** Nanoseconds between two events that are over. */
bool ech_bench_elapsed(Bench *b, EchCuEvent begin, EchCuEvent end, double *ret_ns, GError **error);

/* ---- calibrate_bench.c: what is issued in several steps ---- */

bool ech_bench_launch(Bench *b, EchCuFunction function, unsigned blocks, unsigned threads, EchCuStream stream, void **parameters, GError **error);
/** A kernel that does nothing; @data is not looked at. */
bool ech_bench_issue_empty(Bench *b, EchCuStream stream, const void *data, GError **error);
/** Where in each half the next @bytes lie, behind what was used last. */
EchBytes ech_bench_next_place(Bench *b, EchBytes bytes);
/** A kernel that streams; @data is a StreamShape. */
typedef struct {
    uint64_t reads, writes; /* 16-byte words */
    bool moves;             /* From where the one before ended */
} StreamShape;
bool ech_bench_issue_stream(Bench *b, EchCuStream stream, const void *data, GError **error);
/** A copy over the host link; @data is a CopyShape. */
typedef struct {
    EchBytes bytes;
    bool from, pageable;
} CopyShape;
bool ech_bench_issue_copy(Bench *b, EchCuStream stream, const void *data, GError **error);

/* ---- the steps; each writes what it has found into b->result ---- */

/* calibrate_runtime.c */
bool ech_calibrate_launches(Bench *b, GError **error);
bool ech_calibrate_graph(Bench *b, GError **error);
bool ech_calibrate_allocations(Bench *b, GError **error);
bool ech_calibrate_mapping(Bench *b, GError **error);
bool ech_calibrate_pages(Bench *b, GError **error);
bool ech_calibrate_waits(Bench *b, GError **error);
/* calibrate_copies.c */
bool ech_calibrate_pinned(Bench *b, GError **error);
bool ech_calibrate_pageable(Bench *b, GError **error);
bool ech_calibrate_both_ways(Bench *b, GError **error);
bool ech_calibrate_engines(Bench *b, GError **error);
bool ech_calibrate_interference(Bench *b, GError **error);
/* calibrate_host.c */
bool ech_calibrate_host(Bench *b, GError **error);
/* calibrate_memory.c */
bool ech_calibrate_memory(Bench *b, GError **error);
bool ech_calibrate_streams(Bench *b, GError **error);
bool ech_calibrate_cache(Bench *b, GError **error);
bool ech_calibrate_latency(Bench *b, GError **error);
/* calibrate_compute.c */
bool ech_calibrate_arithmetic(Bench *b, GError **error);
bool ech_calibrate_matrix(Bench *b, GError **error);
bool ech_calibrate_products(Bench *b, GError **error);
