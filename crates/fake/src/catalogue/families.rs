//! The families of the realistic catalogue, one line each.
//!
//! Prices are modeled, not quoted: linear in vCPUs and GPUs, at the rates of on-demand Linux instances of such families in a large
//! region. Price relations between families are realistic; no figure is a list price.

/// The sizes of a family: name and vCPUs.
pub(super) type Sizes = &'static [(&'static str, i64)];

/// Older x86: up to 24xlarge, and metal of that size.
pub(super) const CLASSIC: Sizes = &[
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("metal", 96),
];
/// Sixth generation x86: up to 32xlarge.
pub(super) const WIDE: Sizes = &[
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("32xlarge", 128),
    ("metal", 128),
];
/// Seventh generation and later: up to 48xlarge, and two metal sizes.
pub(super) const HUGE: Sizes = &[
    ("medium", 1),
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("48xlarge", 192),
    ("metal-24xl", 96),
    ("metal-48xl", 192),
];
/// Arm of the sixth and seventh generation: medium to 16xlarge.
pub(super) const GRAVITON: Sizes = &[
    ("medium", 1),
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("metal", 64),
];
/// Storage-optimized instances.
pub(super) const STORAGE: Sizes =
    &[("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16), ("8xlarge", 32), ("16xlarge", 64)];

/// A family whose sizes differ in scale only.
pub(super) struct Family {
    pub name: &'static str,
    pub arm: bool,
    pub sizes: Sizes,
    /// GiB of memory per vCPU.
    pub gib_per_cpu: i64,
    /// Nano-dollars per vCPU and hour.
    pub nanos_per_cpu: i64,
    /// GiB of local NVMe per vCPU; zero for none.
    pub nvme_gib_per_cpu: i64,
}

const fn family(
    name: &'static str,
    arm: bool,
    sizes: Sizes,
    gib_per_cpu: i64,
    micros_per_cpu: i64,
    nvme_gib_per_cpu: i64,
) -> Family {
    Family { name, arm, sizes, gib_per_cpu, nanos_per_cpu: micros_per_cpu * 1000, nvme_gib_per_cpu }
}

/// General purpose, compute, memory and storage. Columns: name, arm64, sizes, GiB per vCPU, micro-dollars per vCPU and
/// hour, GiB of NVMe per vCPU.
pub(super) const FAMILIES: &[Family] = &[
    family("m5", false, CLASSIC, 4, 48_000, 0),
    family("m5a", false, CLASSIC, 4, 43_000, 0),
    family("m5d", false, CLASSIC, 4, 56_500, 37),
    family("m6i", false, WIDE, 4, 48_000, 0),
    family("m6id", false, WIDE, 4, 59_325, 59),
    family("m6a", false, WIDE, 4, 43_200, 0),
    family("m6g", true, GRAVITON, 4, 38_500, 0),
    family("m6gd", true, GRAVITON, 4, 45_200, 59),
    family("m7i", false, HUGE, 4, 50_400, 0),
    family("m7a", false, HUGE, 4, 57_960, 0),
    family("m7g", true, GRAVITON, 4, 40_800, 0),
    family("m7gd", true, GRAVITON, 4, 53_390, 59),
    family("m8g", true, HUGE, 4, 44_880, 0),
    family("c5", false, CLASSIC, 2, 42_500, 0),
    family("c5a", false, CLASSIC, 2, 38_500, 0),
    family("c5d", false, CLASSIC, 2, 48_000, 25),
    family("c6i", false, WIDE, 2, 42_500, 0),
    family("c6id", false, WIDE, 2, 50_400, 59),
    family("c6a", false, WIDE, 2, 38_250, 0),
    family("c6g", true, GRAVITON, 2, 34_000, 0),
    family("c6gd", true, GRAVITON, 2, 38_400, 59),
    family("c7i", false, HUGE, 2, 44_625, 0),
    family("c7a", false, HUGE, 2, 51_320, 0),
    family("c7g", true, GRAVITON, 2, 36_250, 0),
    family("c8g", true, HUGE, 2, 39_880, 0),
    family("r5", false, CLASSIC, 8, 63_000, 0),
    family("r5a", false, CLASSIC, 8, 56_500, 0),
    family("r5d", false, CLASSIC, 8, 72_000, 37),
    family("r6i", false, WIDE, 8, 63_000, 0),
    family("r6id", false, WIDE, 8, 75_600, 59),
    family("r6a", false, WIDE, 8, 56_700, 0),
    family("r6g", true, GRAVITON, 8, 50_400, 0),
    family("r6gd", true, GRAVITON, 8, 57_600, 59),
    family("r7i", false, HUGE, 8, 66_150, 0),
    family("r7a", false, HUGE, 8, 76_080, 0),
    family("r7g", true, GRAVITON, 8, 53_550, 0),
    family("r8g", true, HUGE, 8, 58_920, 0),
    family("x2gd", true, GRAVITON, 16, 83_500, 59),
    family("i4i", false, STORAGE, 8, 85_800, 117),
    family("i4g", true, STORAGE, 8, 77_220, 117),
    family("im4gn", true, STORAGE, 4, 90_950, 117),
    family("is4gen", true, STORAGE, 6, 144_075, 234),
];

/// Burstable families: name, arm64, micro-dollars per GiB of memory and hour.
pub(super) const BURSTABLE: &[(&str, bool, i64)] =
    &[("t3", false, 10_400), ("t3a", false, 9_400), ("t4g", true, 8_400)];

/// Sizes of burstable instances: name, vCPUs, MiB of memory, pods by their network interfaces.
pub(super) const BURSTABLE_SIZES: &[(&str, i64, i64, i64)] = &[
    ("nano", 2, 512, 4),
    ("micro", 2, 1024, 4),
    ("small", 2, 2048, 11),
    ("medium", 2, 4096, 17),
    ("large", 2, 8192, 35),
    ("xlarge", 4, 16_384, 58),
    ("2xlarge", 8, 32_768, 58),
];

/// A family with GPUs.
pub(super) struct Accelerated {
    pub name: &'static str,
    /// Size, vCPUs, GPUs.
    pub sizes: &'static [(&'static str, i64, i64)],
    pub gib_per_cpu: i64,
    /// Nano-dollars per vCPU and hour.
    pub nanos_per_cpu: i64,
    /// Nano-dollars per GPU and hour.
    pub nanos_per_gpu: i64,
    pub nvme_gib_per_cpu: i64,
    /// The number of zones with offerings.
    pub zones: usize,
}

const GRAPHICS: &[(&str, i64, i64)] = &[
    ("xlarge", 4, 1),
    ("2xlarge", 8, 1),
    ("4xlarge", 16, 1),
    ("8xlarge", 32, 1),
    ("12xlarge", 48, 4),
    ("16xlarge", 64, 1),
    ("24xlarge", 96, 4),
    ("48xlarge", 192, 8),
];

/// Graphics and training.
pub(super) const ACCELERATED: &[Accelerated] = &[
    Accelerated {
        name: "g4dn",
        sizes: &[
            ("xlarge", 4, 1),
            ("2xlarge", 8, 1),
            ("4xlarge", 16, 1),
            ("8xlarge", 32, 1),
            ("12xlarge", 48, 4),
            ("16xlarge", 64, 1),
            ("metal", 96, 8),
        ],
        gib_per_cpu: 4,
        nanos_per_cpu: 56_500_000,
        nanos_per_gpu: 300_000_000,
        nvme_gib_per_cpu: 28,
        zones: 3,
    },
    Accelerated {
        name: "g5",
        sizes: GRAPHICS,
        gib_per_cpu: 4,
        nanos_per_cpu: 51_500_000,
        nanos_per_gpu: 800_000_000,
        nvme_gib_per_cpu: 37,
        zones: 3,
    },
    Accelerated {
        name: "g6",
        sizes: GRAPHICS,
        gib_per_cpu: 4,
        nanos_per_cpu: 43_200_000,
        nanos_per_gpu: 632_000_000,
        nvme_gib_per_cpu: 37,
        zones: 2,
    },
    Accelerated {
        name: "p4d",
        sizes: &[("24xlarge", 96, 8)],
        gib_per_cpu: 12,
        nanos_per_cpu: 60_000_000,
        nanos_per_gpu: 3_376_000_000,
        nvme_gib_per_cpu: 78,
        zones: 2,
    },
    Accelerated {
        name: "p5",
        sizes: &[("48xlarge", 192, 8)],
        gib_per_cpu: 10,
        nanos_per_cpu: 60_000_000,
        nanos_per_gpu: 5_440_000_000,
        nvme_gib_per_cpu: 149,
        zones: 1,
    },
];
