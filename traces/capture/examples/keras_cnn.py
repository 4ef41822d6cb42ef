"""Two epochs of two steps of a small convolutional network in Keras over TensorFlow, for `echelon capture --pretend`; `compiled`: by XLA."""
import sys

import keras
import numpy as np


def main():
    layers = keras.layers
    model = keras.Sequential([
        layers.Input((32, 32, 3)),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile="compiled" in sys.argv[1:])
    images = np.zeros((256, 32, 32, 3), "float32")
    labels = np.zeros((256,), "int64")
    model.fit(images, labels, batch_size=128, epochs=2, shuffle=False, verbose=0)


if __name__ == "__main__":
    main()
