What there is to choose from.
$ echelon list devices
NVIDIA, Blackwell and Rubin
  b200                NVIDIA B200 SXM, 180 GB HBM3e
  b300                NVIDIA B300 SXM, 288 GB HBM3e
  gb10                NVIDIA GB10 (DGX Spark), 128 GB LPDDR5X that CPU and GPU share
  gb200               NVIDIA GB200, one GPU, 186 GB HBM3e, NVLink-C2C
  gb300               NVIDIA GB300, one GPU, 288 GB HBM3e, NVLink-C2C
  jetson-agx-thor     NVIDIA Jetson AGX Thor, 128 GB LPDDR5X that CPU and GPU share
  rtx-5060-ti         NVIDIA GeForce RTX 5060 Ti, 16 GB GDDR7
  rtx-5070            NVIDIA GeForce RTX 5070, 12 GB GDDR7
  rtx-5070-ti         NVIDIA GeForce RTX 5070 Ti, 16 GB GDDR7
  rtx-5080            NVIDIA GeForce RTX 5080, 16 GB GDDR7
  rtx-5090            NVIDIA GeForce RTX 5090, 32 GB GDDR7
  rtx-5090-d          NVIDIA GeForce RTX 5090 D, 32 GB GDDR7
  rtx-pro-4500        NVIDIA RTX PRO 4500 Blackwell, 32 GB GDDR7
  rtx-pro-4500-server NVIDIA RTX PRO 4500 Blackwell Server Edition, 32 GB GDDR7
  rtx-pro-5000        NVIDIA RTX PRO 5000 Blackwell, 48 GB GDDR7
  rtx-pro-6000        NVIDIA RTX PRO 6000 Blackwell Workstation Edition, 96 GB GDDR7
  rtx-pro-6000-max-q  NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition, 96 GB GDDR7
  rtx-pro-6000-server NVIDIA RTX PRO 6000 Blackwell Server Edition, 96 GB GDDR7
  rubin               NVIDIA Rubin (VR200), one GPU, 288 GB HBM4, NVLink-C2C, announced figures
NVIDIA, Hopper
  gh200               NVIDIA GH200, 96 GB HBM3, NVLink-C2C to 480 GB
  gh200-144           NVIDIA GH200, 144 GB HBM3e, NVLink-C2C to 480 GB
  h100-nvl            NVIDIA H100 NVL, 94 GB HBM3
  h100-pcie           NVIDIA H100 PCIe, 80 GB HBM2e
  h100-sxm            NVIDIA H100 SXM5, 80 GB HBM3
  h20                 NVIDIA H20, 96 GB HBM3
  h20-3e              NVIDIA H20-3e, 141 GB HBM3e
  h200                NVIDIA H200 SXM, 141 GB HBM3e
  h200-nvl            NVIDIA H200 NVL, 141 GB HBM3e
  h800                NVIDIA H800 SXM5, 80 GB HBM3
  h800-pcie           NVIDIA H800 PCIe, 80 GB HBM2e
NVIDIA, Ada
  l20                 NVIDIA L20, 48 GB GDDR6
  l4                  NVIDIA L4, 24 GB GDDR6
  l40                 NVIDIA L40, 48 GB GDDR6
  l40s                NVIDIA L40S, 48 GB GDDR6
  rtx-4000-ada        NVIDIA RTX 4000 Ada, 20 GB GDDR6
  rtx-4060            NVIDIA GeForce RTX 4060, 8 GB GDDR6
  rtx-4060-ti         NVIDIA GeForce RTX 4060 Ti, 16 GB GDDR6
  rtx-4070            NVIDIA GeForce RTX 4070, 12 GB GDDR6X
  rtx-4070-super      NVIDIA GeForce RTX 4070 SUPER, 12 GB GDDR6X
  rtx-4070-ti         NVIDIA GeForce RTX 4070 Ti, 12 GB GDDR6X
  rtx-4070-ti-super   NVIDIA GeForce RTX 4070 Ti SUPER, 16 GB GDDR6X
  rtx-4080            NVIDIA GeForce RTX 4080, 16 GB GDDR6X
  rtx-4080-super      NVIDIA GeForce RTX 4080 SUPER, 16 GB GDDR6X
  rtx-4090            NVIDIA GeForce RTX 4090, 24 GB GDDR6X
  rtx-4090-d          NVIDIA GeForce RTX 4090 D, 24 GB GDDR6X
  rtx-5000-ada        NVIDIA RTX 5000 Ada, 32 GB GDDR6
  rtx-6000-ada        NVIDIA RTX 6000 Ada, 48 GB GDDR6
NVIDIA, Ampere
  a10                 NVIDIA A10, 24 GB GDDR6
  a100-40             NVIDIA A100 SXM4, 40 GB HBM2
  a100-80             NVIDIA A100 SXM4, 80 GB HBM2e
  a100-pcie-40        NVIDIA A100 PCIe, 40 GB HBM2
  a100-pcie-80        NVIDIA A100 PCIe, 80 GB HBM2e
  a10g                NVIDIA A10G, 24 GB GDDR6
  a2                  NVIDIA A2, 16 GB GDDR6
  a30                 NVIDIA A30, 24 GB HBM2
  a40                 NVIDIA A40, 48 GB GDDR6
  a800-80             NVIDIA A800 SXM4, 80 GB HBM2e
  jetson-agx-orin     NVIDIA Jetson AGX Orin, 64 GB LPDDR5 that CPU and GPU share
  rtx-3060            NVIDIA GeForce RTX 3060, 12 GB GDDR6
  rtx-3070            NVIDIA GeForce RTX 3070, 8 GB GDDR6
  rtx-3080            NVIDIA GeForce RTX 3080, 10 GB GDDR6X
  rtx-3080-ti         NVIDIA GeForce RTX 3080 Ti, 12 GB GDDR6X
  rtx-3090            NVIDIA GeForce RTX 3090, 24 GB GDDR6X
  rtx-3090-ti         NVIDIA GeForce RTX 3090 Ti, 24 GB GDDR6X
  rtx-a5000           NVIDIA RTX A5000, 24 GB GDDR6
  rtx-a6000           NVIDIA RTX A6000, 48 GB GDDR6
NVIDIA, Pascal to Turing
  p100                NVIDIA P100 PCIe, 16 GB HBM2
  rtx-2080-ti         NVIDIA GeForce RTX 2080 Ti, 11 GB GDDR6
  t4                  NVIDIA T4, 16 GB GDDR6
  v100-16             NVIDIA V100 SXM2, 16 GB HBM2
  v100-32             NVIDIA V100 SXM2, 32 GB HBM2
  v100-pcie-16        NVIDIA V100 PCIe, 16 GB HBM2
  v100-pcie-32        NVIDIA V100 PCIe, 32 GB HBM2
  v100s               NVIDIA V100S PCIe, 32 GB HBM2
AMD
  mi100               AMD Instinct MI100, 32 GB HBM2
  mi210               AMD Instinct MI210, 64 GB HBM2e
  mi250x              AMD Instinct MI250X, one die (half a card), 64 GB HBM2e
  mi300a              AMD Instinct MI300A, 128 GB HBM3 that CPU and GPU share
  mi300x              AMD Instinct MI300X, 192 GB HBM3
  mi325x              AMD Instinct MI325X, 256 GB HBM3e
  mi350x              AMD Instinct MI350X, 288 GB HBM3e
  mi355x              AMD Instinct MI355X, 288 GB HBM3e
  mi455x              AMD Instinct MI455X, 432 GB HBM4, announced figures
Google
  tpu-8i              TPU 8i, one core (half a chip), 144 GiB HBM, announced figures
  tpu-v1              TPU v1, 256 x 256 8-bit array, 8 GiB Weight Memory
  tpu-v2              TPU v2, one core (half a chip), 8 GiB HBM
  tpu-v3              TPU v3, one core (half a chip), 16 GiB HBM
  tpu-v4              TPU v4, one core (half a chip), 16 GiB HBM, 64 MiB CMEM
  tpu-v5e             TPU v5e, one chip (one core), 16 GiB HBM
  tpu-v5p             TPU v5p, one chip (two cores as one device), 95.7 GiB HBM
  tpu-v6e             TPU v6e, one chip (one core), 32 GiB HBM
  tpu7x               TPU7x (Ironwood), one core (half a chip), 96 GiB HBM
calibrated
  h100-sxm-calibrated NVIDIA H100 80GB HBM3, calibrated 2026-11-27
  h200-calibrated     NVIDIA H200, calibrated 2026-11-29
$ echelon list devices --json
[
  {
    "name" : "a10",
    "summary" : "NVIDIA A10, 24 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "a100-40",
    "summary" : "NVIDIA A100 SXM4, 40 GB HBM2",
    "family" : "gpu"
  },
  {
    "name" : "a100-80",
    "summary" : "NVIDIA A100 SXM4, 80 GB HBM2e",
    "family" : "gpu"
  },
  {
    "name" : "a100-pcie-40",
    "summary" : "NVIDIA A100 PCIe, 40 GB HBM2",
    "family" : "gpu"
  },
  {
    "name" : "a100-pcie-80",
    "summary" : "NVIDIA A100 PCIe, 80 GB HBM2e",
    "family" : "gpu"
  },
  {
    "name" : "a10g",
    "summary" : "NVIDIA A10G, 24 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "a2",
    "summary" : "NVIDIA A2, 16 GB GDDR6",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an A10's, which power holds too"
  },
  {
    "name" : "a30",
    "summary" : "NVIDIA A30, 24 GB HBM2",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an A100 PCIe's"
  },
  {
    "name" : "a40",
    "summary" : "NVIDIA A40, 48 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "a800-80",
    "summary" : "NVIDIA A800 SXM4, 80 GB HBM2e",
    "family" : "gpu"
  },
  {
    "name" : "b200",
    "summary" : "NVIDIA B200 SXM, 180 GB HBM3e",
    "family" : "gpu"
  },
  {
    "name" : "b300",
    "summary" : "NVIDIA B300 SXM, 288 GB HBM3e",
    "family" : "gpu"
  },
  {
    "name" : "gb10",
    "summary" : "NVIDIA GB10 (DGX Spark), 128 GB LPDDR5X that CPU and GPU share",
    "family" : "gpu"
  },
  {
    "name" : "gb200",
    "summary" : "NVIDIA GB200, one GPU, 186 GB HBM3e, NVLink-C2C",
    "family" : "gpu"
  },
  {
    "name" : "gb300",
    "summary" : "NVIDIA GB300, one GPU, 288 GB HBM3e, NVLink-C2C",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet and driver, its link to the host by nvbandwidth; shares of them as a B200's and a GB200's"
  },
  {
    "name" : "gh200",
    "summary" : "NVIDIA GH200, 96 GB HBM3, NVLink-C2C to 480 GB",
    "family" : "gpu"
  },
  {
    "name" : "gh200-144",
    "summary" : "NVIDIA GH200, 144 GB HBM3e, NVLink-C2C to 480 GB",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet and driver; shares of them as a GH200's of 96 GB"
  },
  {
    "name" : "h100-nvl",
    "summary" : "NVIDIA H100 NVL, 94 GB HBM3",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as other H100s'"
  },
  {
    "name" : "h100-pcie",
    "summary" : "NVIDIA H100 PCIe, 80 GB HBM2e",
    "family" : "gpu"
  },
  {
    "name" : "h100-sxm",
    "summary" : "NVIDIA H100 SXM5, 80 GB HBM3",
    "family" : "gpu"
  },
  {
    "name" : "h100-sxm-calibrated",
    "summary" : "NVIDIA H100 80GB HBM3, calibrated 2026-11-27",
    "family" : "gpu"
  },
  {
    "name" : "h20",
    "summary" : "NVIDIA H20, 96 GB HBM3",
    "family" : "gpu"
  },
  {
    "name" : "h20-3e",
    "summary" : "NVIDIA H20-3e, 141 GB HBM3e",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet and driver; shares of it as an H20's, memory as an H200's"
  },
  {
    "name" : "h200",
    "summary" : "NVIDIA H200 SXM, 141 GB HBM3e",
    "family" : "gpu"
  },
  {
    "name" : "h200-calibrated",
    "summary" : "NVIDIA H200, calibrated 2026-11-29",
    "family" : "gpu"
  },
  {
    "name" : "h200-nvl",
    "summary" : "NVIDIA H200 NVL, 141 GB HBM3e",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as other Hoppers'"
  },
  {
    "name" : "h800",
    "summary" : "NVIDIA H800 SXM5, 80 GB HBM3",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; the rest as an H100 SXM's"
  },
  {
    "name" : "h800-pcie",
    "summary" : "NVIDIA H800 PCIe, 80 GB HBM2e",
    "family" : "gpu"
  },
  {
    "name" : "jetson-agx-orin",
    "summary" : "NVIDIA Jetson AGX Orin, 64 GB LPDDR5 that CPU and GPU share",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet and driver; shares of them as a GB10's and an A40's"
  },
  {
    "name" : "jetson-agx-thor",
    "summary" : "NVIDIA Jetson AGX Thor, 128 GB LPDDR5X that CPU and GPU share",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet and driver; shares of them as a GB10's and a B200's"
  },
  {
    "name" : "l20",
    "summary" : "NVIDIA L20, 48 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "l4",
    "summary" : "NVIDIA L4, 24 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "l40",
    "summary" : "NVIDIA L40, 48 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "l40s",
    "summary" : "NVIDIA L40S, 48 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "mi100",
    "summary" : "AMD Instinct MI100, 32 GB HBM2",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet, memory and L2 as measured; shares of it as an MI210's"
  },
  {
    "name" : "mi210",
    "summary" : "AMD Instinct MI210, 64 GB HBM2e",
    "family" : "gpu"
  },
  {
    "name" : "mi250x",
    "summary" : "AMD Instinct MI250X, one die (half a card), 64 GB HBM2e",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet, half of the card; shares of it as an MI210's"
  },
  {
    "name" : "mi300a",
    "summary" : "AMD Instinct MI300A, 128 GB HBM3 that CPU and GPU share",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; memory and shares of it as an MI300X's"
  },
  {
    "name" : "mi300x",
    "summary" : "AMD Instinct MI300X, 192 GB HBM3",
    "family" : "gpu"
  },
  {
    "name" : "mi325x",
    "summary" : "AMD Instinct MI325X, 256 GB HBM3e",
    "family" : "gpu"
  },
  {
    "name" : "mi350x",
    "summary" : "AMD Instinct MI350X, 288 GB HBM3e",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an MI355X's, which has 1400 W for its 1000"
  },
  {
    "name" : "mi355x",
    "summary" : "AMD Instinct MI355X, 288 GB HBM3e",
    "family" : "gpu"
  },
  {
    "name" : "mi455x",
    "summary" : "AMD Instinct MI455X, 432 GB HBM4, announced figures",
    "family" : "gpu",
    "rates_unmeasured" : "AMD's announced figures, what early ones say of themselves, and shares of them as an MI355X's"
  },
  {
    "name" : "p100",
    "summary" : "NVIDIA P100 PCIe, 16 GB HBM2",
    "family" : "gpu"
  },
  {
    "name" : "rtx-2080-ti",
    "summary" : "NVIDIA GeForce RTX 2080 Ti, 11 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "rtx-3060",
    "summary" : "NVIDIA GeForce RTX 3060, 12 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "rtx-3070",
    "summary" : "NVIDIA GeForce RTX 3070, 8 GB GDDR6",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; clocks as an RTX 3080's, memory as an RTX 3090's"
  },
  {
    "name" : "rtx-3080",
    "summary" : "NVIDIA GeForce RTX 3080, 10 GB GDDR6X",
    "family" : "gpu"
  },
  {
    "name" : "rtx-3080-ti",
    "summary" : "NVIDIA GeForce RTX 3080 Ti, 12 GB GDDR6X",
    "family" : "gpu"
  },
  {
    "name" : "rtx-3090",
    "summary" : "NVIDIA GeForce RTX 3090, 24 GB GDDR6X",
    "family" : "gpu"
  },
  {
    "name" : "rtx-3090-ti",
    "summary" : "NVIDIA GeForce RTX 3090 Ti, 24 GB GDDR6X",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an RTX 3090's"
  },
  {
    "name" : "rtx-4000-ada",
    "summary" : "NVIDIA RTX 4000 Ada, 20 GB GDDR6",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an RTX 6000 Ada's"
  },
  {
    "name" : "rtx-4060",
    "summary" : "NVIDIA GeForce RTX 4060, 8 GB GDDR6",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; memory as an RTX 4090's, shares of it as an RTX 4060 Ti's"
  },
  {
    "name" : "rtx-4060-ti",
    "summary" : "NVIDIA GeForce RTX 4060 Ti, 16 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "rtx-4070",
    "summary" : "NVIDIA GeForce RTX 4070, 12 GB GDDR6X",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; clocks and memory as an RTX 4070 SUPER's"
  },
  {
    "name" : "rtx-4070-super",
    "summary" : "NVIDIA GeForce RTX 4070 SUPER, 12 GB GDDR6X",
    "family" : "gpu"
  },
  {
    "name" : "rtx-4070-ti",
    "summary" : "NVIDIA GeForce RTX 4070 Ti, 12 GB GDDR6X",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; memory and shares of it as an RTX 4070 SUPER's"
  },
  {
    "name" : "rtx-4070-ti-super",
    "summary" : "NVIDIA GeForce RTX 4070 Ti SUPER, 16 GB GDDR6X",
    "family" : "gpu"
  },
  {
    "name" : "rtx-4080",
    "summary" : "NVIDIA GeForce RTX 4080, 16 GB GDDR6X",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet, memory as an RTX 4090's, shares of it as an RTX 4070 Ti SUPER's"
  },
  {
    "name" : "rtx-4080-super",
    "summary" : "NVIDIA GeForce RTX 4080 SUPER, 16 GB GDDR6X",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet, memory as an RTX 4090's, shares of it as an RTX 4070 Ti SUPER's"
  },
  {
    "name" : "rtx-4090",
    "summary" : "NVIDIA GeForce RTX 4090, 24 GB GDDR6X",
    "family" : "gpu"
  },
  {
    "name" : "rtx-4090-d",
    "summary" : "NVIDIA GeForce RTX 4090 D, 24 GB GDDR6X",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an RTX 4090's"
  },
  {
    "name" : "rtx-5000-ada",
    "summary" : "NVIDIA RTX 5000 Ada, 32 GB GDDR6",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an RTX 6000 Ada's"
  },
  {
    "name" : "rtx-5060-ti",
    "summary" : "NVIDIA GeForce RTX 5060 Ti, 16 GB GDDR7",
    "family" : "gpu"
  },
  {
    "name" : "rtx-5070",
    "summary" : "NVIDIA GeForce RTX 5070, 12 GB GDDR7",
    "family" : "gpu"
  },
  {
    "name" : "rtx-5070-ti",
    "summary" : "NVIDIA GeForce RTX 5070 Ti, 16 GB GDDR7",
    "family" : "gpu"
  },
  {
    "name" : "rtx-5080",
    "summary" : "NVIDIA GeForce RTX 5080, 16 GB GDDR7",
    "family" : "gpu"
  },
  {
    "name" : "rtx-5090",
    "summary" : "NVIDIA GeForce RTX 5090, 32 GB GDDR7",
    "family" : "gpu"
  },
  {
    "name" : "rtx-5090-d",
    "summary" : "NVIDIA GeForce RTX 5090 D, 32 GB GDDR7",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an RTX 5090's"
  },
  {
    "name" : "rtx-6000-ada",
    "summary" : "NVIDIA RTX 6000 Ada, 48 GB GDDR6",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet, memory as an L40's, and shares of it as an L40S's"
  },
  {
    "name" : "rtx-a5000",
    "summary" : "NVIDIA RTX A5000, 24 GB GDDR6",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an RTX A6000's, which has 300 W for its 230"
  },
  {
    "name" : "rtx-a6000",
    "summary" : "NVIDIA RTX A6000, 48 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "rtx-pro-4500",
    "summary" : "NVIDIA RTX PRO 4500 Blackwell, 32 GB GDDR7",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet, shares of it as an RTX PRO 6000's, memory as an RTX 5070 Ti's"
  },
  {
    "name" : "rtx-pro-4500-server",
    "summary" : "NVIDIA RTX PRO 4500 Blackwell Server Edition, 32 GB GDDR7",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; clocks of an RTX PRO 4500, which has 200 W for its 165, and shares of it as an RTX PRO 6000's"
  },
  {
    "name" : "rtx-pro-5000",
    "summary" : "NVIDIA RTX PRO 5000 Blackwell, 48 GB GDDR7",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet, shares of it as an RTX PRO 6000's, memory as an RTX 5070 Ti's"
  },
  {
    "name" : "rtx-pro-6000",
    "summary" : "NVIDIA RTX PRO 6000 Blackwell Workstation Edition, 96 GB GDDR7",
    "family" : "gpu"
  },
  {
    "name" : "rtx-pro-6000-max-q",
    "summary" : "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition, 96 GB GDDR7",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as an RTX PRO 6000's, which has 600 W for its 300"
  },
  {
    "name" : "rtx-pro-6000-server",
    "summary" : "NVIDIA RTX PRO 6000 Blackwell Server Edition, 96 GB GDDR7",
    "family" : "gpu"
  },
  {
    "name" : "rubin",
    "summary" : "NVIDIA Rubin (VR200), one GPU, 288 GB HBM4, NVLink-C2C, announced figures",
    "family" : "gpu",
    "rates_unmeasured" : "NVIDIA's announced figures, what drivers say of early ones, and shares of them as a GB300's"
  },
  {
    "name" : "t4",
    "summary" : "NVIDIA T4, 16 GB GDDR6",
    "family" : "gpu"
  },
  {
    "name" : "tpu-8i",
    "summary" : "TPU 8i, one core (half a chip), 144 GiB HBM, announced figures",
    "family" : "tpu",
    "rates_unmeasured" : "JAX's and Google's figures, and a TPU7x's compiler and constants"
  },
  {
    "name" : "tpu-v1",
    "summary" : "TPU v1, 256 x 256 8-bit array, 8 GiB Weight Memory",
    "family" : "tpu"
  },
  {
    "name" : "tpu-v2",
    "summary" : "TPU v2, one core (half a chip), 8 GiB HBM",
    "family" : "tpu"
  },
  {
    "name" : "tpu-v3",
    "summary" : "TPU v3, one core (half a chip), 16 GiB HBM",
    "family" : "tpu"
  },
  {
    "name" : "tpu-v4",
    "summary" : "TPU v4, one core (half a chip), 16 GiB HBM, 64 MiB CMEM",
    "family" : "tpu"
  },
  {
    "name" : "tpu-v5e",
    "summary" : "TPU v5e, one chip (one core), 16 GiB HBM",
    "family" : "tpu"
  },
  {
    "name" : "tpu-v5p",
    "summary" : "TPU v5p, one chip (two cores as one device), 95.7 GiB HBM",
    "family" : "tpu"
  },
  {
    "name" : "tpu-v6e",
    "summary" : "TPU v6e, one chip (one core), 32 GiB HBM",
    "family" : "tpu"
  },
  {
    "name" : "tpu7x",
    "summary" : "TPU7x (Ironwood), one core (half a chip), 96 GiB HBM",
    "family" : "tpu"
  },
  {
    "name" : "v100-16",
    "summary" : "NVIDIA V100 SXM2, 16 GB HBM2",
    "family" : "gpu"
  },
  {
    "name" : "v100-32",
    "summary" : "NVIDIA V100 SXM2, 32 GB HBM2",
    "family" : "gpu"
  },
  {
    "name" : "v100-pcie-16",
    "summary" : "NVIDIA V100 PCIe, 16 GB HBM2",
    "family" : "gpu"
  },
  {
    "name" : "v100-pcie-32",
    "summary" : "NVIDIA V100 PCIe, 32 GB HBM2",
    "family" : "gpu"
  },
  {
    "name" : "v100s",
    "summary" : "NVIDIA V100S PCIe, 32 GB HBM2",
    "family" : "gpu",
    "rates_unmeasured" : "its data sheet; shares of it as a V100's"
  }
]
$ echelon list passes
  place            decide anew what lies in the on-chip memory and when it is fetched
      vmem=size (0)  on-chip memory given to values; 0: what the device has without its kernels' own windows
      policy=xla|fragmentation|on-demand|depth|belady|none (xla)  xla: as the compiler; fragmentation: gaps chosen to keep the largest one whole; on-demand: fetched as late as the time allows; depth: fetched a fixed number of kernels ahead; belady: shortest wait for the next use first; none: everything in HBM
      depth=number (1)  policy=depth: kernels ahead
      bandwidth=rate (0)  rate of a copy that decisions assume; 0: the device's
      prefetches=number (40)  copies into the on-chip memory under way at a time, at most
      evictions=number (40)  copies out of it under way at a time: fewer than so many, as the compiler counts them
      cross_program=number (1)  parameters fetched before the program begins, at most; 0: none
      slices=true or false (true)  large arrays are fetched in slices where the chip's compiler does so
      repacks=number (4)  times that everything is placed again when space runs out, at most
      loops=true or false (true)  iterations of unrolled loops are decided together
      min_overlap=ratio (1)  a fetch starts at least this many times its own length before its use
      overlap=ratio (2)  best distance of a fetch from its use, in its own lengths
      max_overlap=ratio (8)  longest distance, in lengths of a copy of the whole memory
      compiler=auto|libtpu-0.0.51|libtpu-0.0.52 (auto)  whose rules, where versions differ: on tpu7x 0.0.51 places kernels' scratch with the values, 0.0.52 cuts 32 MiB off for it beforehand as on other chips; auto: what the program's text tells, else 0.0.51
  carry            update in place what loops take slice by slice and stack anew (lax.scan's xs and ys)
  donate           let outputs take the place of arguments, or none
      what=all|none (all)  all: outputs take the place of arguments of their shape, else of their size; none: every output gets a place of its own
      names=text (*)  only arguments whose name fits this, * standing for anything ("state*")
      above=size (0)  only arguments of at least this size
  slice            update stacked arrays a layer at a time, so that offload fetches slices (lax.fori_loop around the optimizer's update)
      names=text (*)  only kernels that update an array whose name, argument ("opt_state*"), operation or source line fits this, * standing for anything
      above=size (1MiB)  only where that array is of at least this size
  batch            a larger or smaller batch, or one taken in parts whose gradients are added up (of PyTorch's programs; of XLA's the loss)
      times=ratio (1)  rows of a batch for each that there is: 0.5, 2; of a batch of one row, where it is less, so much of its length
      rows=number (0)  rows of a batch, where it is known how many there are; 0: as times= has it
      parts=number (1)  parts that a step takes its batch in, one after the other, adding their gradients up (gradient accumulation)
      what=batch|loss (batch)  batch: all of a step is done in parts; loss: its loss over classes alone, with the product before it, forward and backward; parts=1: in as many as LigerFusedLinearCrossEntropyLoss takes, of XLA's programs in eight
  shard            split weights and optimizer state that every device holds whole over the devices (ZeRO-1); of PyTorch gradients, too (FSDP, ZeRO-3)
      weights=true or false (true)  true: weights are held in parts, too, and gathered when a step begins, of PyTorch when a module runs (FSDP); false: each device holds them whole, and gathers what was updated (ZeRO-1)
      names=text (*)  of compiled programs: only state whose name, argument ("opt_state*"), operation or source line fits this, * standing for anything
      above=size (64KiB)  of those: only arrays of at least this size
      over=number (0)  of PyTorch: devices; 0: as many as its gradients are summed over; of more than that, groups of so many each have all in parts (HSDP)
      modules=text ()  of PyTorch: what is gathered at a time, modules whose path fits this ("layers.*", "encoder.*+decoder.*"); else those that the program repeats
      keep=true or false (false)  of PyTorch: what was gathered for the forward pass stays for the backward pass (reshard_after_forward=False, ZeRO-2)
  offload          let saved activations, arguments or results wait in host memory between their uses
      what=saved|activations|arguments|parts|results (saved)  saved: what the program makes and uses again later; activations: of that, what a forward pass makes and a backward pass reads (of PyTorch's, or JAX's), each once out and back, over its longest pause (idle=0: as save_on_cpu, or a policy of jax.checkpoint, has it); arguments: what it is given (parameters, optimizer state), with what is written over it; parts: of PyTorch's, all that a module is given which is called outside of others comes before its calls and goes back when the one is called that came behind it first, as enable_model_cpu_offload() of diffusers has it; results: what it hands back
      names=text (*)  only arrays whose name, argument ("opt_state*"), operation, source line ("*model.py:29*"), PyTorch module ("*layers.*.mlp*") or role ("optimizer") fits this, * standing for anything; products: what matrix products without batch dimensions make, and convolutions (of XLA's programs); stacks: what a loop writes, and one reads, slice by slice
      above=size (1MiB)  only arrays of at least this size
      idle=ratio (1)  saved: only arrays that lie idle for at least this many times as long as copying them out and back takes; others: shorter pauses are spent on the device
      memory=size (0)  only as many arrays, those idle for longest first, as bring what the device holds at its fullest down to this; 0: all
      each=true or false (false)  activations: out and back once for each operator that saved them, as save_on_cpu has it, which does not know them again and takes parameters and small ones, too (above=1); arguments: in once for each call of the PyTorch module that uses them, whatever the pause is, as hooks of accelerate and diffusers have it
      overlap=true or false (false)  false: the program waits for each copy to the host, as XLA's schedules and save_on_cpu mostly do; true: it goes on beside them, for as long as what they are still taking out has room in memory= (fetches: pass prefetch); of arguments with each=true what the next call needs comes beside this one, as enable_group_offload(use_stream=True) of diffusers has it
      stash=number (0)  overlap=true: the program waits for the oldest copy to the host when more than this many are under way, as torchtune's OffloadActivations has it (5 there), which leaves parameters; 0: any number
      to=text ()  memory of the device's file in which they wait, a tier beyond the host's, say (cxl), over the link that joins it with hbm; nothing: the host's
  remat            make saved activations again instead of keeping them
      names=text (*)  only arrays whose name, operation or source line ("*model.py:29*") fits this, * standing for anything
      keep=text ()  none that fits this, as JAX's save_only_these_names has it; products: as its policies for dots have it, with convolutions
      above=size (64KiB)  only arrays of at least this size
      memory=size (0)  only as many arrays, cheapest first, as bring what the device holds at its fullest down to this; 0: as far down as they can
      modules=text ()  of each module of PyTorch whose path fits this ("layers.*", "encoder.*+decoder.*"), all that its forward pass makes but its results, whatever that brings, as torch.utils.checkpoint has it
      products=true or false (true)  true: anything may run again; false: no matrix products, as JAX's dots_saveable has it
  fuse             run PyTorch's optimizer as one kernel, as fused=True has it, or on the host
      where=device|host (device)  device: one kernel, of optimizers over lists that PyTorch has such a kind of; host: any optimizer runs there, as fast as the host's memory or processor reads and writes each array once: gradients go when they are done, parameters come back, its state stays
      state=kept|8bit (kept)  on the device; 8bit: as bitsandbytes' AdamW8bit and its like have it, of parameters of 4096 elements and more, a kernel for each parameter; of Adam, AdamW, Adagrad, SGD, RMSprop
  schedule         run kernels, begin copies from and to the host, and wait for them, when XLA's latency-hiding scheduler does
      copies=number (0)  copies from and to the host under way at a time, at most; 0: as XLA has it, 5 on TPUs, 2 on GPUs
      memory=size (0)  device memory that it keeps to where it can; 0: 95 % of what there is, XLA's default (xla_tpu_scheduler_percent_shared_memory_limit, GPUs: xla_gpu_memory_limit_slop_factor)
      reruns=number (1)  times that it tries again with a tenth less, where more is needed (xla_latency_hiding_scheduler_rerun)
  prefetch         fetch from host memory earlier, across layers and loop iterations, within a memory budget
      lookahead=ratio (1)  time kept for a fetch before its use, in its own lengths; 0: fetches stay where they are
      depth=number (1)  iterations that a loop's fetches run ahead; 0: none
      budget=size (0)  device memory that earlier fetches may take more, at any moment; 0: what is free then, of what an offload before was told to hold the device to
      above=size (0)  only fetches of at least this size
  pin              copies from and to pageable host memory find it pinned
  pad              round the size of every buffer up, or give arrays another padding
      align=size (512)  granule: sizes are rounded up to a multiple of it
      above=size (0)  only buffers of at least this size
      tiles=keep|dense|row_major (keep)  padding of arrays whose shape is known: keep it, dense (none at all), or row_major (dimensions in the order they are written, with the chip's tiles)
  unplan           forget the compiler's placement, so that the allocator places the buffers
      memory=text (hbm)  whose buffers
  plan             place all buffers anew before the program runs, as a compiler does
      memory=text (hbm)  whose buffers
      planner=text (xla)  xla, greedy or exact ('echelon list planners')
      results_apart=true or false (true)  what is live at the end has a place of its own, where only what is no larger lies before, as XLA has it; false: anything may lie there
  serial           let nothing overlap, to see what overlap is worth
$ echelon list devices tpu-v2 --sources --json | sed -n 6,14p
    "numbers" : [
      {
        "path" : "cores",
        "value" : 1.0,
        "source" : "data sheet: two cores a chip, each a device"
      },
      {
        "path" : "memories.hbm.space",
        "value" : 0.0,
$ echelon list planners exact | head -1
  exact            Lowest plan by search, with proof; best so far when time is up
$ echelon list devices --sources | sed -n '/^  tpu-v6e/,/^  tpu7x/p' | grep 'links.host'
      links.host.nominal                            32000000000  data sheet: book, 3.2e10 B/s PCIe for each chip
      links.host.to_device                          28380000000  measured: recorded, point 1 of 3: 5 GiB to the device in 189.17 ms with nothing else on the link
      links.host.from_device                        29440000000  measured: recorded, point 2 of 3: 5 GiB from the device in 182.36 ms with nothing else on the link
      links.host.both_ways                          53000000000  measured: recorded, point 3 of 3: 5 GiB to the device in 202.03 ms, the first 7.92 ms alone (point 1), then 194.1 ms beside a copy from it
      links.host.setup                                  6000000  assumed: cudaMemcpyAsync takes 5 to 7 us (arXiv 2602.21548)
      links.host.latency                                1000000  assumed
      links.host.engines_to                                   1  measured: recorded, copies of one direction complete one after the other
      links.host.engines_from                                 1  measured: recorded
$ echelon list writers
  ech              echelon's own trace: everything that is known, as text (.ech)
  chrome           Chrome's JSON timeline of what was recorded (ui.perfetto.dev, chrome://tracing) (.json)
  perfetto         the same as Perfetto's protobuf (.pftrace .perfetto-trace)
  pprof            memory held at the peak by stack, for pprof (gzip with .gz) (.pb .pprof .prof)
  minimalloc       lifetimes of the memory's buffers as MiniMalloc's CSV (.csv)
  chakra           MLCommons Chakra execution trace, loops unrolled (.et)
$ for f in ech alloc_text minimalloc; do echelon list formats $f | awk '/^$/ { n++ } n == 1 && NF' > $T/example; echelon info --format $f $T/example | sed "s,$T/,,;2q"; done  # what is shown is read as it stands
example: ech
5 operations on 2 queues, 2 buffers
example: alloc_text
5 operations on 3 queues, 2 buffers
example: minimalloc
4 operations on 1 queue, 2 buffers
$ echelon list formats ech | sed -n '/^$/,$p'

echelon-trace 1 "by hand"
strings 0
memories 2
"hbm"
"host"
queues 2
compute 0 "core"
copy 0 "dma"
buffers 2
b "weights" m=1 bytes=4000000 resident=1
b "window" m=0 bytes=1000000
ops 5
loop "layers" q=0 target=4 bytes=4
alloc "window" q=0 target=1 bytes=1000000
copy "fetch" q=1 from=1 to=0 bytes=1000000 r=0:1000000 w=1:1000000 after=-1
kernel "product" q=0 r=1:1000000 work=matrix:bf16:9000000000 after=-1
free "window" q=0 target=1 bytes=1000000

    Each section begins with its count; memories, queues and buffers are numbered from 0 as they stand. A buffer (b) lies in memory m; resident=1: from the start, else from its alloc to its free. offset= gives it a place.
    An operation runs behind the one before it on its queue, and behind those that after= names: -1 the line before, -1@2 that line two iterations ago. r= and w= are buffers that it reads and writes, and bytes of each; work= the unit (matrix, vector, transcendental), the type, and operations (a multiply-add is two); duration= what was recorded, in ps.
    loop runs the next lines, so many as target= says, bytes= times. wait "done" q=0 after=-3 holds a queue for an operation of another.
$ echelon list devices a100-80; echelon list devices a100-80:3g.40gb --sources | grep -E 'MIG|hbm.(capacity|read)|units.(matrix.count|vector.peaks.f32)|nvlink'; echelon list devices a100-80:5g.50gb; echelon info h100-sxm:1g.10gb | head -4; echelon run --trace traces/gpt_pytorch.h100/gpt.pretend.gz --device h100-sxm:1g.10gb --step last | sed -n '1p; /It fits/p; /It takes/p'
  a100-80             NVIDIA A100 SXM4, 80 GB HBM2e
      MIG cuts it into 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb: a100-80:PROFILE is a device, too
  a100-80:3g.40gb     NVIDIA A100 SXM4, 80 GB HBM2e, MIG 3g.40gb
      memories.hbm.capacity                         42144366592  the board's mig.3g.40gb.bytes
      memories.hbm.read                            954000000000  4/8 of the board's
      units.matrix.count                                    168  42 of the board's 108 multiprocessors
      units.vector.peaks.f32                      7583333333333  follows what was changed; was as a100-80: data sheet: sheet
echelon: a100-80 cannot be cut into 5g.50gb (MIG); expected one of 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb
h100-sxm:1g.10gb: a device: NVIDIA H100 SXM5, 80 GB HBM3, MIG 1g.10gb
  memory hbm                 9.75 GiB, read 393 GB/s, written 393 GB/s
  memory l2                  6.25 MiB, read 1.01 TB/s, written 1.01 TB/s
  memory host                   2 TiB, read 300 GB/s, written 300 GB/s
gpt.pretend, step 2 of 2 on h100-sxm:1g.10gb (NVIDIA H100 SXM5, 80 GB HBM3, MIG 1g.10gb)
  It fits. hbm 4.63 GiB of 9.25 GiB (50 %)
  It takes 89.6 ms, bound by hbm port (54 % of the critical path).
