"""The schedule of als244/ml_dataflow, written anew in PyTorch: one GPU trains a Llama whose parameters, gradients, optimizer state and activations lie in
host memory. Layers, gradients and activations come and go through as many buffers as fit, a stream for each way; a step takes several rounds of chunks, and
what the host has no room for is computed again.

offloaded.py MODEL SEQUENCE CHUNK ROUNDS LAYERS,GRADIENTS,ACTIVATIONS INPUT,ATTENTION,FULL [STEPS]: tokens of a sequence and of a chunk; how many layers'
parameters and gradients and chunks' activations the device has room for; of the others' activations, of how many the host keeps only what goes in, also what
attention gave, or all."""
import math
import sys

import torch
import torch.nn.functional as F

MODELS = {"1b": (16, 2048, 32, 8, 64, 8192, 128256), "8b": (32, 4096, 32, 8, 128, 14336, 128256), "15b": (64, 4096, 32, 8, 128, 14336, 128256),
          "32b": (64, 5120, 40, 8, 128, 27648, 152064)}
L, D, H, KV, HD, FF, V = MODELS[sys.argv[1]]
S, CHUNK, R = (int(a) for a in sys.argv[2:5])
HEAD_CHUNK = 1024
bf, dev = torch.bfloat16, "cuda"
AD, KD = H * HD, KV * HD
assert CHUNK % S == 0, "a sequence of several chunks is not written"
NSEQ = CHUNK // S
hopper = torch.cuda.get_device_capability() == (9, 0)


def views(buffer, shapes):
    return [part.view(shape) for part, shape in zip(buffer[:sum(map(math.prod, shapes))].split([math.prod(s) for s in shapes]), shapes)]


LAYER = [(D,), (AD, D), (KD, D), (KD, D), (D, AD), (D,), (FF, D), (FF, D), (D, FF)]  # norm, q, k, v, o, norm, w1, w3, w2
BLOCK = sum(map(math.prod, LAYER))
KEPT_OF_CHUNK = [(CHUNK, n) for n in (D, KD, KD, AD, AD, D, FF, FF)]  # input, keys, values, attention, queries, what o adds to, w1, w3
INPUT, ATTENTION, FULL = 3, 4, 8                                      # so many of them the host keeps
ELEMENTS = [sum(n for _, n in KEPT_OF_CHUNK[:kept]) for kept in range(9)]
ACT = ELEMENTS[FULL]

N = max(1, round(BLOCK / (CHUNK * ACT)))             # chunks a round: as many as keep about what a layer's parameters take
P, G, A = (int(a) for a in sys.argv[5].split(","))
only, attention, full = (int(a) for a in sys.argv[6].split(","))
home = L * N - A
assert home == only + attention + full
level = [INPUT] * only + [ATTENTION] * attention if only else [FULL if i * full // home < (i + 1) * full // home else ATTENTION for i in range(home)]


def pin(n): return torch.empty(n, dtype=bf, pin_memory=True)


empty = lambda *s: torch.empty(*s, dtype=bf, device=dev)
host_blocks = [pin(BLOCK) for _ in range(L)]
host_grads = [pin(BLOCK) for _ in range(L)]
host_mean = [pin(BLOCK) for _ in range(L)]
host_var = [pin(BLOCK) for _ in range(L)]
host_acts = [pin(CHUNK * ELEMENTS[kept]) for kept in level]
blocks = [empty(BLOCK) for _ in range(P)]
grads = [empty(BLOCK) for _ in range(G)]
room = empty(A * CHUNK * ACT)
acts = list(room.view(A, -1))
embedding, embedding_grad = empty(V, D), empty(V, D)
head, head_grad, head_norm, head_norm_grad = empty(V, D), empty(V, D), empty(D), empty(D)
transitions = [[empty(CHUNK, D), empty(CHUNK, D)] for _ in range(N)]
work, work_ff = empty(CHUNK, D), empty(CHUNK, FF)
g_act = views(empty(CHUNK * ACT), KEPT_OF_CHUNK)
g_x = empty(CHUNK, D)
tokens = torch.zeros(CHUNK, dtype=torch.int64, device=dev)
compute, inbound, outbound = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()


def event(stream):
    e = torch.cuda.Event()
    e.record(stream)
    return e


def inb(to, source, *after):
    for e in after:
        if e is not None:
            inbound.wait_event(e)
    with torch.cuda.stream(inbound):
        to.copy_(source, non_blocking=True)
    return event(inbound)


def outb(to, source, *after):
    for e in after:
        outbound.wait_event(e)
    with torch.cuda.stream(outbound):
        to.copy_(source, non_blocking=True)
    return event(outbound)


compiled = torch.compile(dynamic=False)
pos = torch.arange(CHUNK, device=dev) % S
freq = 1.0 / (500000 ** (torch.arange(0, HD, 2, device=dev).float() / HD))


@compiled
def rope(x, sign: float):
    a = pos[:, None].float() * freq[None, :]
    c, s = torch.cos(a)[:, None, :], torch.sin(a)[:, None, :] * sign
    y = x.view(CHUNK, -1, HD // 2, 2).float()
    p, q = y[..., 0], y[..., 1]
    x.copy_(torch.stack((p * c - q * s, p * s + q * c), -1).view(x.shape).to(bf))


@compiled
def swiglu(a, b, out): out.copy_((F.silu(a.float()) * b.float()).to(bf))


@compiled
def swiglu_backward(d, a, b, da, db):
    x, y, g = a.float(), b.float(), d.float()
    s = torch.sigmoid(x)
    da.copy_((g * y * s * (1 + x * (1 - s))).to(bf))
    db.copy_((g * x * s).to(bf))


@compiled
def norm(x, w, out):
    y = x.float()
    out.copy_((y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * w.float()).to(bf))


@compiled
def norm_backward(g, x, w, into):
    y = x.float()
    r = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
    n = y * r
    h = g.float() * w.float()
    into.copy_((into.float() + r * (h - n * (h * n).mean(-1, keepdim=True))).to(bf))


@compiled
def norm_backward_weight(g, x, dw):
    y = x.float()
    r = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
    dw.add_((g.float() * y * r).sum(0).to(bf))


def heads(x, n): return x.view(NSEQ, S, n, HD).transpose(1, 2)


def attend(q, k, v):
    q, k, v = heads(q, H), heads(k, KV), heads(v, KV)
    if hopper:
        return torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False)


def attend_backward(g, q, k, v, out, kept):
    q, k, v, g, o = heads(q, H), heads(k, KV), heads(v, KV), heads(g, H), heads(out, H)
    if hopper:
        return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(g, q, k, v, o, kept[0], kept[5], kept[6], None, None, None, S, S, 0.0, True)
    return torch.ops.aten._scaled_dot_product_flash_attention_backward(g, q, k, v, o, kept[0], None, None, S, S, 0.0, True, kept[5], kept[6])


sums = {}


def layer_forward(w, x, y, act, idx):
    n1, wq, wk, wv, wo, n2, w1, w3, w2 = w
    xi, k, v, at, q, o, a, b = act
    xi.copy_(x)
    norm(xi, n1, work)
    torch.mm(work, wq.t(), out=q)
    torch.mm(work, wk.t(), out=k)
    torch.mm(work, wv.t(), out=v)
    rope(q, 1.0)
    rope(k, 1.0)
    sums[idx] = attend(q, k, v)[1:]  # what it gives goes unused, its place among what is kept stands for it
    torch.addmm(xi, at, wo.t(), out=o)
    norm(o, n2, work)
    torch.mm(work, w1.t(), out=a)
    torch.mm(work, w3.t(), out=b)
    swiglu(a, b, work_ff)
    torch.addmm(o, work_ff, w2.t(), out=y)


def again(w, act, idx, what):
    n1, wq, wk, wv, wo, n2, w1, w3, w2 = w
    xi, k, v, at, q, o, a, b = act
    norm(xi, n1, work)
    torch.mm(work, wq.t(), out=q)
    rope(q, 1.0)
    if what == INPUT:
        sums[idx] = attend(q, k, v)[1:]
    torch.addmm(xi, at, wo.t(), out=o)
    norm(o, n2, work)
    torch.mm(work, w1.t(), out=a)
    torch.mm(work, w3.t(), out=b)


def backward_x(w, dw, g, into, act, idx):
    n1, wq, wk, wv, wo, n2, w1, w3, w2 = w
    xi, k, v, at, q, o, a, b = act
    dxi, dk, dv, dat, dq, do, da, db = g_act
    into.copy_(g)
    torch.mm(g, w2, out=work_ff)
    swiglu_backward(work_ff, a, b, da, db)
    torch.mm(da, w1, out=work)
    torch.addmm(work, db, w3, out=work)
    norm_backward(work, o, n2, into)
    do.copy_(into)
    norm_backward_weight(work, o, dw[5])
    torch.mm(do, wo, out=dat)
    attend_backward(dat, q, k, v, at, sums.pop(idx))
    rope(dq, -1.0)
    rope(dk, -1.0)
    torch.mm(dq, wq, out=work)
    torch.addmm(work, dk, wk, out=work)
    torch.addmm(work, dv, wv, out=work)
    norm_backward(work, xi, n1, into)
    norm_backward_weight(work, xi, dw[0])


def backward_w(dw, g, act):
    xi, k, v, at, q, o, a, b = act
    dxi, dk, dv, dat, dq, do, da, db = g_act
    def add(d, x, y): return d.addmm_(x.t(), y)
    swiglu(a, b, work_ff)
    add(dw[8], g, work_ff)
    add(dw[6], da, work)
    add(dw[7], db, work)
    add(dw[4], do, at)
    add(dw[1], dq, work)
    add(dw[2], dk, work)
    add(dw[3], dv, work)


logits = empty(HEAD_CHUNK, V)


def head_step(x, gx):
    for t in range(0, CHUNK, HEAD_CHUNK):
        xs, gs, wk = x[t:t + HEAD_CHUNK], gx[t:t + HEAD_CHUNK], work[t:t + HEAD_CHUNK]
        norm(xs, head_norm, wk)
        torch.mm(wk, head.t(), out=logits)
        torch.softmax(logits, -1, out=logits)
        logits[:, 0].sub_(1)
        head_grad.addmm_(logits.t(), wk)
        torch.mm(logits, head, out=g_x[t:t + HEAD_CHUNK])
        gs.zero_()
        norm_backward(g_x[t:t + HEAD_CHUNK], xs, head_norm, gs)
        norm_backward_weight(g_x[t:t + HEAD_CHUNK], xs, head_norm_grad)


step_count = torch.zeros((), device=dev)


def adamw(p, g, m, v):
    torch._fused_adamw_([p], [g], [m], [v], [], [step_count], lr=2e-5, beta1=0.9, beta2=0.999, weight_decay=1e-4, eps=1e-8, amsgrad=False, maximize=False)


embedding_state, head_state = (empty(V, D), empty(V, D)), (empty(V, D), empty(V, D))
host_embedding, host_head = pin(V * D).view(V, D), pin(V * D).view(V, D)
STATES = max(1, min(L, int(A * CHUNK * ACT // (2 * BLOCK))))

ready = {}                                      # of a layer: the event after which its parameters are there
where = {k: k for k in range(P)}                # of a layer: its buffer
busy_act = [None] * A                           # of a buffer of activations: the event after which it may be written


def round_of(r):
    """Forward and backward of one round. Returns the gradients' buffers of the layers that stay for the optimizer."""
    grad_of, grad_ready, grad_free = {}, {}, list(range(G))
    act_of, home_at = {}, {}
    to_come, grad_to_come = P, L - 1
    if r == 0:
        for k in range(L - 1, L - 1 - G, -1):
            grad_of[k] = grad_free.pop(0)
        grad_to_come = L - 1 - G

    def fetch_grad(k, buffer, *after):
        grad_of[k] = buffer
        grad_ready[k] = inb(grads[buffer], host_grads[k], grad_sent.get(k), *after)
    for c in range(N):
        transitions[c][0].copy_(F.embedding(tokens, embedding))
    slot = 0
    for k in range(L):
        if k in ready:
            compute.wait_event(ready[k])
        weights = views(blocks[where[k]], LAYER)
        for c in range(N):
            i = k * N + c
            if busy_act[slot]:
                compute.wait_event(busy_act[slot])
            layer_forward(weights, transitions[c][k % 2], transitions[c][(k + 1) % 2], views(acts[slot], KEPT_OF_CHUNK), i)
            done = event(compute)
            if i < home:
                busy_act[slot] = home_at[i] = outb(host_acts[i], acts[slot][:host_acts[i].numel()], done)
            else:
                act_of[i] = (slot, None)
            if i + 1 < L * N:
                slot = (slot + 1) % A
        if to_come < L:
            where[to_come] = where.pop(k)
            ready[to_come] = inb(blocks[where[to_come]], host_blocks[to_come], done)
            to_come += 1
        elif r > 0 and grad_to_come >= L - G:
            fetch_grad(grad_to_come, grad_free.pop(0), done)
            grad_to_come -= 1
    while r > 0 and grad_to_come >= L - G:
        fetch_grad(grad_to_come, grad_free.pop(0))
        grad_to_come -= 1
    for c in reversed(range(N)):
        head_step(transitions[c][L % 2], transitions[c][(L + 1) % 2])

    to_come, act_to_come = min(where) - 1, home - 1
    for k in reversed(range(L)):
        if k in ready:
            compute.wait_event(ready[k])
        if k in grad_ready:
            compute.wait_event(grad_ready[k])
        weights, buffer = views(blocks[where[k]], LAYER), grad_of.pop(k)
        if r == 0:
            grads[buffer].zero_()
        for c in reversed(range(N)):
            i = k * N + c
            slot, there = act_of.pop(i)
            if there:
                compute.wait_event(there)
            act = views(acts[slot], KEPT_OF_CHUNK)
            if i < home and level[i] != FULL:
                again(weights, act, i, level[i])
            backward_x(weights, views(grads[buffer], LAYER), transitions[c][k % 2], transitions[c][(k + 1) % 2], act, i)
            backward_w(views(grads[buffer], LAYER), transitions[c][k % 2], act)
            done = event(compute)
            if act_to_come >= 0:
                act_of[act_to_come] = (slot, inb(acts[slot][:host_acts[act_to_come].numel()], host_acts[act_to_come], done, home_at[act_to_come]))
                act_to_come -= 1
            busy_act[slot] = None
        stays = r == R - 1 and k < G
        if stays:
            grad_of[k] = buffer
        else:
            grad_sent[k] = outb(host_grads[k], grads[buffer], done)
            if r == 0 and grad_to_come >= 0:
                grad_of[grad_to_come] = buffer
                grad_ready[grad_to_come] = grad_sent[k]
                grad_to_come -= 1
        gradient_too = r > 0 and grad_to_come >= max(to_come, 0)
        if to_come >= 0 and (r == 0 or to_come >= grad_to_come):
            where[to_come] = where.pop(max(where))
            ready[to_come] = inb(blocks[where[to_come]], host_blocks[to_come], done)
            to_come -= 1
        if gradient_too and not stays:
            fetch_grad(grad_to_come, buffer, grad_sent[k])
            grad_to_come -= 1
    for c in range(N):
        embedding_grad.index_add_(0, tokens, transitions[c][1])
    return grad_of


def optimizer_step(grad_of):
    """Layer by layer: what is not there comes, and all goes home again."""
    state = [room[i * 2 * BLOCK:(i + 1) * 2 * BLOCK] for i in range(STATES)]   # activations are done with
    there, grad_ready = {}, {}

    def fetch_state(k, s, *after):
        inb(state[s][:BLOCK], host_mean[k], *after)
        there[k] = (s, inb(state[s][BLOCK:], host_var[k]))
    for k in range(STATES):
        fetch_state(k, k, event(compute))
    adamw(embedding, embedding_grad, *embedding_state)
    outb(host_embedding, embedding, event(compute))
    adamw(head, head_grad, *head_state)
    outb(host_head, head, event(compute))
    for k in range(L):
        for e in (ready.get(k), grad_ready.get(k), there[k][1]):
            if e:
                compute.wait_event(e)
        s, block, gradient = there.pop(k)[0], where[k], grad_of.pop(k)
        adamw(blocks[block], grads[gradient], state[s][:BLOCK], state[s][BLOCK:])
        done = event(compute)
        home = outb(host_blocks[k], blocks[block], done)
        outb(host_mean[k], state[s][:BLOCK])
        away = outb(host_var[k], state[s][BLOCK:])
        if k + P < L:
            where[k + P] = where.pop(k)
            ready[k + P] = inb(blocks[block], host_blocks[k + P], home)
        if k + G < L:
            grad_of[k + G] = gradient
            grad_ready[k + G] = inb(grads[gradient], host_grads[k + G], done)
        if k + STATES < L:
            fetch_state(k + STATES, s, away)
    for k in range(P):
        if k not in where:
            where[k] = where.pop(max(where))
            ready[k] = inb(blocks[where[k]], host_blocks[k], event(outbound))
    compute.wait_event(event(outbound))


grad_sent, marks = {}, 1
for step in range(int(sys.argv[7]) if len(sys.argv) > 7 else 2):  # the second begins as all later ones do: steps R + 2 to 2 R + 2 of the capture
    for r in range(R + 1):
        with torch.cuda.nvtx.range(f"step {marks}"):
            if r < R:
                stay = round_of(r)
            else:
                optimizer_step(stay)
                torch.cuda.synchronize()
        marks += 1
