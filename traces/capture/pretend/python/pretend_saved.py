"""Functions of Python that autograd calls for each array that an operator saves, and for each that its gradient takes (torch.autograd.graph.saved_tensors_hooks:
torch.utils.checkpoint, save_on_cpu): they take of the host what no operator tells."""
import ctypes
import itertools
import types

# A call takes the host as long as 1.5 operators: of steps of a GPT and a Llama with their blocks checkpointed, on an H200's host, 9.6 and 8.7 us where operators
# took 5.3 and 6.5 (traces/gpu_h200/measures); told of every other call.
OF_TWO = 3


def install(graph):
    """@graph: the module torch.autograd.graph."""
    asked, calls, made = ctypes.CDLL(None).pretend_asked, itertools.count(), graph.saved_tensors_hooks.__init__

    def counted(function):
        if not isinstance(function, (types.FunctionType, types.MethodType)):  # a graph that a compiler takes in
            return function

        def called(array):
            if next(calls) & 1:
                asked(OF_TWO)
            return function(array)
        return called

    def init(self, pack_hook, unpack_hook):
        made(self, counted(pack_hook), counted(unpack_hook))

    graph.saved_tensors_hooks.__init__ = init
