"""Join the processes that a launcher started, through Accelerate; refuse a launch that went wrong."""

import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import DistributedDataParallelKwargs, DistributedType, InitProcessGroupKwargs, LoggerType
from torch.distributed import DistNetworkError

from zoo.devices.choose import choose_device, device_name
from zoo.devices.compiling import refuse_without_compiler
from zoo.devices.memory import freeze_imports, map_large_blocks
from zoo.devices.precision import forward_dtype, name_of_dtype
from zoo.training.devices.strategy import ONE, choose_strategy
from zoo.training.settings import Training
from zoo.wording import refuse_unknown

# The timeout of collectives. Processes may wait for days while one tokenizes; the watchdog ends those that hang.
COLLECTIVE_TIMEOUT = timedelta(days=7)
SUPPORTED = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)
LAUNCH_VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
HOW_TO_LAUNCH = (
    "to train in one process, unset WORLD_SIZE; to train in several, let `accelerate launch --multi_gpu "
    "--num_processes N -m zoo …` or torchrun start them"
)
PORT_TAKEN = (
    "another training may use that port, or another process may be process 0, too; let the launcher choose a port"
)
logger = logging.getLogger(__name__)


def start_processes(settings: Training, folder: Path) -> Accelerator:
    """Join the processes that were launched together, as the first action of a training command.

    Args:
        folder: the run's; trackers write to it.

    Raises:
        ValueError: not as many processes as were launched or asked for, an unsupported strategy, precision or launcher
            option, a missing compiler, or a tracker that is unknown or not installed.
        RuntimeError: the processes cannot connect to each other.
    """
    for tracker in settings.trackers:
        refuse_unknown(tracker, LOGGER_TYPE_TO_CLASS, "tracker", "training.trackers")
        # Accelerate would silently ignore it
        if tracker in LoggerType.list() and tracker not in map(str, get_available_trackers()):
            raise ValueError(
                f"training.trackers: the package of '{tracker}' is not installed; install it, or leave it out"
            )
    freeze_imports()
    if settings.keep_memory:
        map_large_blocks()
    launched = count_launched(os.environ)
    refuse_launcher_options(os.environ)
    # without this, torchrun on a machine without a GPU starts as many independent trainings as there are processes
    on_cpu = choose_device().type == "cpu"
    # `static_graph` stays off: it requires the same heads to be trained in every step, and gains nothing if every
    # parameter is used.
    buckets = DistributedDataParallelKwargs(gradient_as_bucket_view=settings.bucket_views)
    try:
        accelerator = Accelerator(
            cpu=on_cpu,
            mixed_precision="no",
            log_with=list(settings.trackers) or None,
            project_dir=str(folder),
            kwargs_handlers=[InitProcessGroupKwargs(timeout=COLLECTIVE_TIMEOUT), buckets],
        )
    except DistNetworkError as error:
        raise RuntimeError(f"{describe_rendezvous()}, which fails: {PORT_TAKEN} ({error})") from error
    check_processes(accelerator, settings, launched)
    forward_dtype(settings.precision, accelerator.device)  # raises if the device lacks it, before data is read
    if settings.compile is True:
        refuse_without_compiler(accelerator.device)
    return accelerator


def count_launched(environment: Mapping[str, str]) -> int:
    """Return how many processes a launcher started together, from the environment variables that it sets.

    Raises:
        ValueError: the variables are incomplete or wrong, so the processes could not find each other.
    """
    size, rank = environment.get("WORLD_SIZE", "1"), environment.get("RANK", "0")
    lacking = ", ".join(name for name in LAUNCH_VARIABLES if name not in environment)
    if not size.isdecimal() or int(size) < 1:
        raise ValueError(f"WORLD_SIZE: expected a number of processes, got '{size}': {HOW_TO_LAUNCH}")
    if int(size) > 1 and lacking:
        raise ValueError(f"WORLD_SIZE is {size}, but without {lacking} no other process can be found: {HOW_TO_LAUNCH}")
    if int(size) > 1 and (not rank.isdecimal() or int(rank) >= int(size)):
        raise ValueError(f"RANK: expected 0 to {int(size) - 1}, as WORLD_SIZE is {size}; got '{rank}': {HOW_TO_LAUNCH}")
    return int(size)


def refuse_launcher_options(environment: Mapping[str, str]) -> None:
    """Refuse options of the launcher that Accelerate would apply on top of the training settings.

    Raises:
        ValueError: one is set; the message names the training setting to use instead.
    """
    if environment.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        # on CPUs Accelerate would silently train with DDP instead
        raise ValueError("accelerate launch: leave out --use_fsdp; --set training.strategy=fsdp shards the model")
    if environment.get("ACCELERATE_DYNAMO_BACKEND", "no").lower() != "no":
        # Accelerate would compile the whole model with its loss, whatever training.compile says, and allow TF32
        raise ValueError(
            "accelerate launch: set --dynamo_backend no, or say so in `accelerate config`; --set training.compile=true "
            "compiles the model's blocks"
        )


def describe_rendezvous() -> str:
    """Describe how many processes connect, and where, from the launcher's environment variables."""
    size, rank, address, port = (os.environ.get(name) for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"))
    return f"WORLD_SIZE is {size}, this is process {rank}, and they meet at {address}:{port}"


def check_processes(accelerator: Accelerator, settings: Training, launched: int) -> None:
    """Refuse a launch that Accelerate set up differently from what was asked for.

    Raises:
        ValueError: the number of processes, the strategy or gradient accumulation differs.
    """
    count = accelerator.num_processes
    if count != launched:
        raise ValueError(
            f"WORLD_SIZE is {launched}, but {count} process joined: start with `accelerate launch --multi_gpu "
            f"--num_processes {launched} -m zoo …`, on CPUs with ACCELERATE_USE_CPU=true before it"
        )
    if settings.processes not in (None, count):
        raise ValueError(
            f"training.processes: {settings.processes} expected, but {count} started; on CPUs `accelerate launch "
            "--cpu` starts one: set ACCELERATE_USE_CPU=true and use --multi_gpu"
        )
    if accelerator.distributed_type not in SUPPORTED:
        strategy = accelerator.distributed_type.value
        raise ValueError(f"accelerate launch: {strategy} is not supported; use --multi_gpu, and training.strategy")
    choose_strategy(settings, count)
    if accelerator.gradient_accumulation_steps != 1:
        raise ValueError("accelerate launch: leave out --gradient_accumulation_steps; set training.micro_batch instead")


def describe_processes(accelerator: Accelerator, settings: Training) -> str:
    """Describe processes, devices, strategy and precision in one line."""
    count, kind = accelerator.num_processes, accelerator.distributed_type.value
    strategy = choose_strategy(settings, count)
    processes = ONE if strategy == ONE else f"{count} processes ({strategy.upper()}, {kind})"
    device, threads = accelerator.device, torch.get_num_threads()
    precision = name_of_dtype(settings.precision, device)
    return f"{processes} on {device_name(device)}, {precision}, CPU threads each: {threads}"
