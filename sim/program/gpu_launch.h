/** @file gpu_launch.h
 * An instruction of a program compiled for a GPU as the kernel that runs it: its class, how XLA's emitter launches it, its tile and the product's sizes, and
 * the instructions of an element, from the instruction, its body and its backend_config. What traces of GPU tools say of a kernel by its name and its launch.
 *
 * - Loop, reduction, transposition and scatter fusions, and single instructions: models/kernel/gpu_xla.h.
 * - Triton fusions: a block a tile of block_level_fusion_config; products with the tile of k that the nested fusion of an operand has.
 * - cuBLAS: sizes from dot_dimension_numbers; which kernel an algorithm's number stands for is not public, so no tile.
 * - cuDNN convolutions: implicit products over window positions times channels.
 * - Fused attention (cuDNN, Transformer Engine): operations of both products.
 * - Slices copied by the runtime (dynamic_slice_fusion, copies): a memcpy.
 */
#pragma once
#include "models/kernel/gpu_xla.h"
#include "sim/program/program.h"

/** @sms: multiprocessors of the chip that the program was compiled for. False where it is no kernel that the rules know (sorts, solvers, FFTs, foreign custom
 * calls): then nothing but its bytes and operations is known. */
bool ech_program_gpu_launch(const EchProgram *program, EchId instruction, uint32_t sms, EchGpuLaunch *ret);
/** Lets kernel @launch do for its elements what @inside did for its own, too: the instructions of that, without its loads and stores (nothing where either says
 * nothing of its elements' instructions), and its rows, each of which a block of Triton's has whole (ECH_GPU_SOFTMAX_WARP). */
void ech_gpu_launch_take_in(EchGpuLaunch *launch, const EchGpuLaunch *inside);
/** Registers of such a kernel, which reads @arrays of as many elements as it has, and, @keeps, makes one: tiles are smaller where a thread would hold more than
 * there are registers for. */
void ech_gpu_launch_fit_rows(EchGpuLaunch *launch, uint64_t arrays, bool keeps);
/** Operations of a fused attention call of cuDNN or Transformer Engine (both products; half of them under a causal mask; backward five products for two), its
 * mask and which way; 0 for other instructions. */
uint64_t ech_program_attention(const EchProgram *program, EchId instruction, bool *ret_backward);
