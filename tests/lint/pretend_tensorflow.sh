#!/bin/bash
# A TensorFlow program on an NVIDIA GPU that is not there: TensorFlow runs as it is over the pretended driver. What it says of its own memory is what the capture
# has; operators say whose arrays and kernels these are, calls of functions tell steps; limits that the program sets hold. Skipped (77) where python3 has no
# tensorflow with the libraries of CUDA.
set -u
. "$(dirname "$0")/pretend_begin"
begin 'import importlib.util as u; assert u.find_spec("tensorflow") and u.find_spec("nvidia.cudnn")' "tensorflow with CUDA"
export TF_CPP_MIN_LOG_LEVEL=1

cat >"$work/step.py" <<'PY'
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
assert len(gpus) == 1 and "H100" in tf.config.experimental.get_device_details(gpus[0])["device_name"], gpus
tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
weights = [tf.Variable(tf.zeros((1024, 1024)), name="w%d" % i) for i in range(2)]


@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        for i, w in enumerate(weights):
            with tf.name_scope("layer%d" % i):
                x = tf.nn.relu(tf.linalg.matmul(x, w))
        loss = tf.reduce_mean(x)
    for w, g in zip(weights, tape.gradient(loss, weights)):
        w.assign_sub(0.1 * g)
    return loss


@tf.function(jit_compile=True)
def compiled(x):
    return tf.reduce_sum(tf.nn.relu(tf.linalg.matmul(x, weights[0])))


x = tf.zeros((4096, 1024))
for _ in range(3):
    assert float(train_step(x)) == 0
assert float(compiled(x)) == 0
held = [tf.zeros((64 << 20,)) for _ in range(3)]
try:
    held.append(tf.zeros((64 << 20,)))
    raise SystemExit("the limit of 1 GiB does not hold")
except tf.errors.ResourceExhaustedError:
    print("peak", tf.config.experimental.get_memory_info("GPU:0")["peak"])
PY
"$echelon" capture --pretend h100-sxm -o "$work/p" -- python3 "$work/step.py" >"$work/said" 2>&1 || { tail -20 "$work/said"; exit 1; }
echo 'import tensorflow as tf; tf.zeros((8,))' >"$work/as_it_is.py"
"$echelon" capture --pretend h100-sxm --with autocast -o "$work/w" -- python3 "$work/as_it_is.py" 2>&1 | grep -q 'a program of tensorflow: it ran as it is' ||
  { echo "that --with is PyTorch's is not said"; exit 1; }
run() { "$echelon" run --device h100-sxm --trace "$@"; }
capture=$(echo "$work"/p.*.pretend)
peak=$(sed -n 's/^peak //p' "$work/said")
"$echelon" info "$capture" | grep -q "most live in hbm .*($peak)" || { echo "TensorFlow says that its peak is $peak, the capture:"; "$echelon" info "$capture" | grep 'most live'; exit 1; }
run "$capture" >"$work/run" || { head -20 "$work/run"; exit 1; }
grep -q 'tensorflow:memory_limit=1024' "$work/run" || { echo "the program's limit is not told"; exit 1; }
for who in 'layer0 ' 'layer1 ' ; do
  grep -q "^ *$who.*#" "$work/run" || { echo "nothing was asked for by $who:"; sed -n '/Who asked/,/^$/p' "$work/run"; exit 1; }
done
run "$capture" --step last >"$work/last" && grep -q 'train_step' "$work/last" || { echo "calls of train_step are no steps"; head -5 "$work/last"; exit 1; }
run "$work"/p.*.compiled | grep -q 'It fits' || { echo "what XLA compiled is not there"; exit 1; }
