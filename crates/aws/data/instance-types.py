#!/usr/bin/env python3
"""Writes instance-types.txt, the built-in catalogue of EC2 instance types.

Input, one of:
  --moto DIR           the folder moto/ec2/resources of an installed moto (https://github.com/getmoto/moto, Apache-2.0), which
                       carries the answers of DescribeInstanceTypes and DescribeInstanceTypeOfferings of all public regions
  --types FILE...      outputs of `aws ec2 describe-instance-types --region R`, with
  --offerings R=FILE   outputs of `aws ec2 describe-instance-type-offerings --location-type availability-zone --region R`

  python3 instance-types.py --moto DIR --source "moto 5.2.5" --date 2026-10-27 > instance-types.txt

A type without a number of vCPUs, a memory size or an architecture that nodes can have is left out; nothing is estimated. Prices
are in prices.txt; `fleetwright prices export` writes the same form from the price list.
"""

import argparse
import glob
import gzip
import json
import os
import sys

ARCHITECTURES = {"x86_64", "arm64"}


def load(path):
    opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
    with opened as file:
        return json.load(file)


def word(text):
    return text.replace(" ", "_")


def devices(found):
    return ",".join("/".join(str(part) for part in device) for device in found)


def facts(info):
    """The tokens of a type, in a fixed order; None where it cannot be used."""
    cpu = info.get("ProcessorInfo", {})
    archs = [arch for arch in cpu.get("SupportedArchitectures", [])]
    vcpus = info.get("VCpuInfo", {}).get("DefaultVCpus")
    memory = info.get("MemoryInfo", {}).get("SizeInMiB")
    if not (ARCHITECTURES & set(archs)) or not vcpus or not memory:
        return None
    if "hvm" not in info.get("SupportedVirtualizationTypes", []):
        return None
    net, ebs = info.get("NetworkInfo", {}), info.get("EbsInfo", {})
    tokens = [info["InstanceType"], ",".join(archs), str(vcpus), str(memory)]

    def put(key, value):
        if value not in (None, "", 0, False):
            tokens.append(f"{key}={value}")

    clock = cpu.get("SustainedClockSpeedInGhz")
    put("cpu", word(cpu.get("Manufacturer", "")))
    put("clock", round(clock * 1000) if clock else None)
    put("features", ",".join(cpu.get("SupportedFeatures", [])))
    put("buy", ",".join(info.get("SupportedUsageClasses", [])))
    put("hypervisor", info.get("Hypervisor"))
    put("enclaves", "yes" if info.get("NitroEnclavesSupport") == "supported" else None)
    if "InstanceStorageInfo" in info:
        storage = info["InstanceStorageInfo"]
        nvme = storage.get("NvmeSupport", "unsupported") != "unsupported"
        put("storage", f"{storage.get('TotalSizeInGB', '')}{'n' if nvme else ''}" or "-")
    if ebs.get("EbsOptimizedSupport") == "default":
        put("ebs", ebs.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps"))
    cards = sorted((c["NetworkCardIndex"], c["MaximumNetworkInterfaces"]) for c in net.get("NetworkCards", []))
    put("cards", ",".join(f"{index}:{most}" for index, most in cards))
    put("default-card", net.get("DefaultNetworkCardIndex"))
    put("ipv4", net.get("Ipv4AddressesPerInterface"))
    put("encrypts", "yes" if net.get("EncryptionInTransitSupported") else None)
    put("ena", "yes" if net.get("EnaSupport", "unsupported") != "unsupported" else None)
    put("efa", net.get("EfaInfo", {}).get("MaximumEfaInterfaces"))
    put("groups", ",".join(info.get("PlacementGroupInfo", {}).get("SupportedStrategies", [])))
    gpus = info.get("GpuInfo", {}).get("Gpus", [])
    put("gpus", devices((word(g["Name"]), word(g["Manufacturer"]), g["Count"], g["MemoryInfo"]["SizeInMiB"]) for g in gpus))
    neuron = info.get("NeuronInfo", {}).get("NeuronDevices", [])
    put("neuron", devices((word(d["Name"]), d["Count"], d["CoreInfo"]["Count"]) for d in neuron))
    infer = info.get("InferenceAcceleratorInfo", {}).get("Accelerators", [])
    put("accelerators", devices((word(a["Name"]), word(a["Manufacturer"]), a["Count"]) for a in infer))
    return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moto")
    parser.add_argument("--types", nargs="*", default=[])
    parser.add_argument("--offerings", nargs="*", default=[])
    parser.add_argument("--source", required=True)
    parser.add_argument("--date", required=True)
    args = parser.parse_args()
    offerings = dict(pair.split("=", 1) for pair in args.offerings)
    types = {}
    if args.moto:
        types = load(os.path.join(args.moto, "instance_types.json.gz"))
        for path in glob.glob(os.path.join(args.moto, "instance_type_offerings/availability-zone/*.json.gz")):
            offerings[os.path.basename(path).split(".")[0]] = path
    for path in args.types:
        types.update((info["InstanceType"], info) for info in load(path)["InstanceTypes"])
    zones, sold = {}, {}
    for region in sorted(offerings):
        read = load(offerings[region])
        read = read if isinstance(read, list) else read["InstanceTypeOfferings"]
        zones[region] = sorted({item["Location"] for item in read})
        for item in read:
            sold.setdefault(item["InstanceType"], set()).add(region)
    print("# fleetwright instance types 1")
    print(f"# source: {args.source}")
    print(f"# date: {args.date}")
    for region, names in zones.items():
        print(f"region {region} {','.join(names)}")
    regions, left_out = list(zones), []
    for name in sorted(types):
        tokens = facts(types[name])
        if tokens is None:
            left_out.append(name)
            continue
        mask = sum(1 << bit for bit, region in enumerate(regions) if region in sold.get(name, ()))
        print(" ".join(tokens + [f"in={mask:x}"]))
    print(f"left out: {' '.join(left_out)}", file=sys.stderr)


if __name__ == "__main__":
    main()
