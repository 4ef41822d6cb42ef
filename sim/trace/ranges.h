/** @file ranges.h
 * The words of PyTorch's and TensorFlow's ranges, which are lines of an op's stack, innermost first: modules, nodes of a backward pass, steps of an optimizer.
 */
#pragma once
#include <stdbool.h>
#include <string.h>

/** "nn.Module: layers.3.mlp (MLP)": a module's path in the program, and its class. */
#define ECH_RANGE_MODULE "nn.Module: "
/** "autograd::engine::evaluate_function: MmBackward0": a node of a backward pass, within what a checkpoint runs again, too. */
#define ECH_RANGE_BACKWARD "autograd::engine::evaluate_function: "
/** "tf::model/dense/MatMul (MatMul)": TensorFlow's name of an operator, and its kind; of a backward pass below "gradient_tape/". */
#define ECH_RANGE_TENSORFLOW "tf::"
/** "Optimizer.step#AdamW.step". */
#define ECH_RANGE_OPTIMIZER "Optimizer.step#"
/** "server step: 2000 tokens of 4 requests", a mark before each step of vLLM's or SGLang's (capture/pretend/python/pretend_generated.py). */
#define ECH_MARK_SERVER "server step: "
/** "torch.compile: decode_one_token", a mark before each call of a compiled function outside of modules and others (capture/pretend/python/pretend_regions.py).
 */
#define ECH_MARK_COMPILED "torch.compile: "
/** A mark where autograd begins a backward pass, of programs that have neither modules nor optimizers. */
#define ECH_MARK_BACKWARD "backward pass"
/** "server KV cache of 455008 tokens", or so: within it a server makes its cache of keys and values, as large as memory is left (ibid.). */
#define ECH_RANGE_CACHE "server KV cache"
/** A mark before a server's worker loads its weights (ibid.). */
#define ECH_MARK_LOADS "server loads its weights"
/** "server has no room: To serve at least one request ...": what a server says of its cache, and ends (ibid.). */
#define ECH_MARK_NO_ROOM "server has no room: "

/** A mark where a module is called, the first one that is with gradients (capture/pretend/python/sitecustomize.py). */
/** A mark of captures: which PyTorch the program runs, "echelon torch: 2.12.1+cu130". */
#define ECH_MARK_TORCH "echelon torch: "
/** And the property that it becomes: N of the release 2.N. */
#define ECH_TRACE_TORCH_RELEASE "pytorch_release"
#define ECH_MARK_KEEPS "nn.Module keeps what a backward pass takes"

static inline bool ech_stack_has_module(const char *stack)
{
    return strstr(stack, ECH_RANGE_MODULE) != NULL;
}
static inline bool ech_stack_is_backward(const char *stack)
{
    return strstr(stack, ECH_RANGE_BACKWARD) != NULL;
}
static inline bool ech_stack_is_optimizer(const char *stack)
{
    return strstr(stack, ECH_RANGE_OPTIMIZER) != NULL;
}
/** Whether a module runs within a node of the backward pass: a checkpoint runs it again. */
static inline bool ech_stack_runs_again(const char *stack)
{
    const char *module = strstr(stack, ECH_RANGE_MODULE), *node = module ? strstr(stack, ECH_RANGE_BACKWARD) : NULL;
    return node && module < node;
}
/** Looks at an op in the order from the last to the first, by what its stack has, and says whether it stands before a backward pass, or in it: a step that is
 * given a closure (Lightning's all are) has a forward and a backward pass within its range, and the loss between those, none of which are the optimizer's own.
 * *@state: false at first. */
static inline bool ech_stack_before_backward(bool module, bool backward, bool optimizer, bool *state)
{
    if (backward)
        *state = true;
    else if (module || !optimizer)
        *state = false;
    return *state;
}
/** Whether an optimizer's step is within a node of the backward pass, a hook of the gradient that it takes, and not around it, as with a closure. */
static inline bool ech_stack_steps_in_backward(const char *stack)
{
    const char *step = strstr(stack, ECH_RANGE_OPTIMIZER), *node = step ? strstr(stack, ECH_RANGE_BACKWARD) : NULL;
    return node && step < node;
}
