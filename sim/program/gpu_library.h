/** @file gpu_library.h
 * Instructions of GPU programs that become many kernels: sorts, FFTs, solvers.
 */
#pragma once
#include "models/kernel/gpu.h"
#include "sim/program/program.h"

/** Issued instructions of one application of an element-wise instruction; 0 for others. */
double ech_gpu_launch_instructions(const EchProgram *program, const EchInstruction *instruction);

/** A sort as XLA emits it, with the key's width where cub could do it; or a call of cub's own. */
bool ech_program_gpu_sort(const EchProgram *program, EchId instruction, EchGpuLaunch *ret);
bool ech_program_gpu_fft(const EchProgram *program, EchId instruction, EchGpuLaunch *ret);
/** Bytes of the work area that a transform needs beside what the compiler planned (fft.h); 0: none, or no transform. */
EchBytes ech_program_gpu_fft_work(const EchProgram *program, EchId instruction);
/** Calls of cuSOLVER and cuBLAS that factorise or solve, and the instructions that XLA makes them of. */
bool ech_program_gpu_solver(const EchProgram *program, EchId instruction, EchGpuLaunch *ret);
