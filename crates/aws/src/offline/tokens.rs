//! One instance type as a line of a table: name, architectures, vCPUs and MiB of memory, then `key=value` for all that it has besides.

use crate::calls::{Accelerator, Card, Gpu, InstanceTypeDescription, Network, NeuronDevice, Storage};

/// Where an instance type is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// In these regions: one bit for each, in the order of the table.
    Regions(u64),
    /// In these zones, separated by commas.
    Zones(&'a str),
}

/// Reads a line; `None` if it is invalid.
pub(super) fn read(line: &str) -> Option<(InstanceTypeDescription, Place<'_>)> {
    let mut words = line.split(' ');
    let name = words.next().filter(|name| name.contains('.'))?.to_owned();
    let architectures = list(words.next()?);
    let (vcpus, memory_mib) = (positive(words.next()?)?, positive(words.next()?)?);
    let mut info = InstanceTypeDescription {
        name,
        architectures,
        vcpus,
        memory_mib,
        ..InstanceTypeDescription::default()
    };
    let mut place = None;
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "in" => place = Some(Place::Regions(u64::from_str_radix(value, 16).ok()?)),
            "at" => place = Some(Place::Zones(value)),
            _ => put(&mut info, key, value)?,
        }
    }
    Some((info, place?))
}

fn put(info: &mut InstanceTypeDescription, key: &str, value: &str) -> Option<()> {
    let network: &mut Network = &mut info.network;
    match key {
        "cpu" => info.cpu_manufacturer = Some(words(value)),
        "clock" => info.clock_mhz = Some(positive(value)?),
        "features" => info.processor_features = list(value),
        "buy" => info.usage_classes = list(value),
        "hypervisor" => info.hypervisor = words(value),
        "enclaves" => info.enclaves = true,
        "storage" => info.storage = Some(storage(value)?),
        "ebs" => info.ebs_mbps = Some(positive(value)?),
        "cards" => network.cards = value.split(',').map(card).collect::<Option<_>>()?,
        "default-card" => network.default_card = positive(value)?,
        "ipv4" => network.ipv4_per_interface = positive(value)?,
        "encrypts" => network.encrypts_in_transit = true,
        "ena" => network.ena = true,
        "efa" => network.efa_max = Some(positive(value)?),
        "groups" => info.placement_strategies = list(value),
        "gpus" => info.gpus = value.split(',').map(gpu).collect::<Option<_>>()?,
        "neuron" => info.neuron = Some(value.split(',').map(neuron).collect::<Option<_>>()?),
        "accelerators" => info.accelerators = value.split(',').map(accelerator).collect::<Option<_>>()?,
        _ => return None,
    }
    Some(())
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn words(text: &str) -> String {
    text.replace('_', " ")
}

fn positive(text: &str) -> Option<i64> {
    text.parse().ok().filter(|figure| *figure > 0)
}

fn storage(text: &str) -> Option<Storage> {
    let (size, nvme) = text.strip_suffix('n').map_or((text, false), |size| (size, true));
    let total_gb = if size.is_empty() || size == "-" { None } else { Some(positive(size)?) };
    Some(Storage { total_gb, nvme })
}

fn card(text: &str) -> Option<Card> {
    let (index, most) = text.split_once(':')?;
    Some(Card { index: index.parse().ok()?, interfaces_max: positive(most)? })
}

fn gpu(text: &str) -> Option<Gpu> {
    let [name, manufacturer, count, memory] = parts(text)?;
    Some(Gpu {
        name: words(name),
        manufacturer: words(manufacturer),
        // EC2 describes a share of a GPU as none.
        count: count.parse().ok()?,
        memory_mib: memory.parse().ok()?,
    })
}

fn neuron(text: &str) -> Option<NeuronDevice> {
    let [name, count, cores] = parts(text)?;
    Some(NeuronDevice { name: words(name), count: positive(count)?, cores: positive(cores)? })
}

fn accelerator(text: &str) -> Option<Accelerator> {
    let [name, manufacturer, count] = parts(text)?;
    Some(Accelerator { name: words(name), manufacturer: words(manufacturer), count: positive(count)? })
}

fn parts<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.split('/').collect::<Vec<_>>().try_into().ok()
}

/// Writes an instance type without the place where it is offered.
pub(super) fn write(info: &InstanceTypeDescription) -> String {
    let mut line =
        format!("{} {} {} {}", info.name, info.architectures.join(","), info.vcpus, info.memory_mib);
    let mut put = |key: &str, value: String| {
        if !value.is_empty() {
            line.push_str(&format!(" {key}={}", value.replace(' ', "_")));
        }
    };
    let figure = |value: i64| if value > 0 { value.to_string() } else { String::new() };
    let yes = |value: bool| if value { "yes".to_owned() } else { String::new() };
    let network = &info.network;
    put("cpu", info.cpu_manufacturer.clone().unwrap_or_default());
    put("clock", figure(info.clock_mhz.unwrap_or(0)));
    put("features", info.processor_features.join(","));
    put("buy", info.usage_classes.join(","));
    put("hypervisor", info.hypervisor.clone());
    put("enclaves", yes(info.enclaves));
    put("storage", info.storage.as_ref().map_or_else(String::new, written_storage));
    put("ebs", figure(info.ebs_mbps.unwrap_or(0)));
    put("cards", joined(&network.cards, |card| format!("{}:{}", card.index, card.interfaces_max)));
    put("default-card", figure(network.default_card));
    put("ipv4", figure(network.ipv4_per_interface));
    put("encrypts", yes(network.encrypts_in_transit));
    put("ena", yes(network.ena));
    put("efa", figure(network.efa_max.unwrap_or(0)));
    put("groups", info.placement_strategies.join(","));
    let gpu = |gpu: &Gpu| format!("{}/{}/{}/{}", gpu.name, gpu.manufacturer, gpu.count, gpu.memory_mib);
    put("gpus", joined(&info.gpus, gpu));
    let neuron = |device: &NeuronDevice| format!("{}/{}/{}", device.name, device.count, device.cores);
    put("neuron", joined(info.neuron.as_deref().unwrap_or_default(), neuron));
    let accelerator = |found: &Accelerator| format!("{}/{}/{}", found.name, found.manufacturer, found.count);
    put("accelerators", joined(&info.accelerators, accelerator));
    line
}

fn written_storage(storage: &Storage) -> String {
    let size = storage.total_gb.map_or_else(|| "-".to_owned(), |total| total.to_string());
    format!("{size}{}", if storage.nvme { "n" } else { "" })
}

fn joined<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(",")
}
