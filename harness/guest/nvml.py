"""What NVIDIA's management library says of one device, by ctypes. Loaded by accelerator.py.

Function names, structures and numbers are those of NVML's public header, nvml.h. The library
belongs to the driver, so it is there wherever the driver is; nothing else is needed.
"""

import ctypes

LIBRARIES = ("libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1")
#: Says the version without NVML, on Linux.
DRIVER = "/proc/driver/nvidia/version"
NOT_SUPPORTED = 3
#: nvmlComputeMode_t, in its order.
COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")
#: nvmlClocksThrottleReason*, bit by bit.
THROTTLED = (
    "idle",
    "application clocks",
    "software power cap",
    "hardware slowdown",
    "sync boost",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "hardware power brake",
    "display clocks",
)
_SM, _MEMORY = 1, 2
_CORRECTED, _UNCORRECTED, _SINCE_BOOT = 0, 1, 0


class Refused(Exception):
    """NVML would not say something; ``code`` is its nvmlReturn_t."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Pci(ctypes.Structure):
    """nvmlPciInfo_t as nvmlDeviceGetPciInfo_v3 fills it."""

    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    ]


def read(uuid, bus_id, alone):
    """Return (uuid, hardware, readings, note) of the device that torch describes.

    It is found by UUID, else by PCI bus ID, never by its number, because CUDA_VISIBLE_DEVICES
    renumbers for torch and not for NVML. ``alone`` allows the only device of the machine where
    torch tells neither.
    """
    try:
        nvml = Nvml()
    except (OSError, Refused) as error:
        driver = driver_file()
        note = "NVML cannot be used (%s): no VBIOS, ECC and clocks" % error
        return "", {"driver": driver} if driver else {}, {}, note
    try:
        return described(nvml, nvml.find(uuid, bus_id, alone))
    except Refused as error:
        hardware = {}
        try:
            hardware["driver"] = nvml.text("nvmlSystemGetDriverVersion")
        except Refused:
            pass
        return "", hardware, {}, "NVML does not find torch's device: %s" % error
    finally:
        nvml.close()


def described(nvml, handle):
    """Ask everything of one device; what cannot be read is told in one note."""
    missing = []

    def ask(name, question):
        try:
            return question(nvml, handle)
        except Refused as error:
            if error.code != NOT_SUPPORTED:
                missing.append("%s (%s)" % (name, error))
            return "not supported" if name == "ECC" and error.code == NOT_SUPPORTED else ""

    uuid = ask("UUID", lambda nvml, handle: nvml.text("nvmlDeviceGetUUID", handle))
    if uuid.startswith("MIG-"):  # the rest is known of the whole device only
        handle = nvml.handle("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
    hardware = {name: ask(name, question) for name, question in HARDWARE}
    readings = {name: ask(name, question) for name, question in READINGS}
    note = "NVML does not say: %s" % ", ".join(missing) if missing else ""
    return uuid, filled(hardware), filled(readings), note


def filled(values):
    return {name: value for name, value in values.items() if value}


class Nvml:
    """The loaded and initialised library."""

    def __init__(self):
        self.library = loaded()
        self.call("nvmlInit_v2")

    def close(self):
        try:
            self.call("nvmlShutdown")
        except Refused:
            pass

    def call(self, name, *arguments):
        """Call a function of the library.

        Raises:
            Refused: it is not there, or does not return NVML_SUCCESS.
        """
        try:
            function = getattr(self.library, name)
        except AttributeError:
            raise Refused(-1, "this driver has no %s" % name) from None
        function.restype = ctypes.c_int
        code = function(*arguments)
        if code:
            raise Refused(code, self.error(code))

    def error(self, code):
        try:
            words = self.library.nvmlErrorString
            words.restype = ctypes.c_char_p
            return (words(code) or b"").decode("utf-8", "replace") or "error %d" % code
        except AttributeError:
            return "error %d" % code

    def text(self, name, *arguments):
        buffer = ctypes.create_string_buffer(96)
        self.call(name, *arguments, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode("utf-8", "replace").strip()

    def number(self, name, *arguments, kind=ctypes.c_uint):
        value = kind()
        self.call(name, *arguments, ctypes.byref(value))
        return value.value

    def modes(self, name, handle):
        """What is set now, of a function that tells the current and the pending mode."""
        now, pending = ctypes.c_uint(), ctypes.c_uint()
        self.call(name, handle, ctypes.byref(now), ctypes.byref(pending))
        return "on" if now.value else "off"

    def find(self, uuid, bus_id, alone):
        """The handle of the device with this UUID (torch leaves its prefix out) or bus ID."""
        refused = Refused(-1, "torch tells neither its UUID nor its PCI bus")
        plain = uuid.partition("-")[2] if uuid.startswith(("GPU-", "MIG-")) else uuid
        prefixes = ("GPU-", "MIG-") if plain else ()
        wanted = [("nvmlDeviceGetHandleByUUID", prefix + plain) for prefix in prefixes]
        wanted += [("nvmlDeviceGetHandleByPciBusId_v2", bus_id)] if bus_id else []
        for name, key in wanted:
            try:
                return self.handle(name, key.encode())
            except Refused as error:
                refused = error
        if not wanted and alone and self.number("nvmlDeviceGetCount_v2") == 1:
            return self.handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0))
        raise refused

    def handle(self, name, key):
        handle = ctypes.c_void_p()
        self.call(name, key, ctypes.byref(handle))
        return handle


def loaded():
    """The library of the first name that the dynamic linker finds."""
    for name in LIBRARIES[:-1]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return ctypes.CDLL(LIBRARIES[-1])


def driver_file(path=DRIVER):
    """The driver's version from the kernel module's own file, or an empty string."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            words = file.readline(1000).split()
    except OSError:
        return ""
    return next((word for word in words if word[0].isdigit() and "." in word), "")


def pci_bus(nvml, handle):
    info = Pci()
    nvml.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(info))
    return info.bus_id.decode("utf-8", "replace").lower()


def compute_mode(nvml, handle):
    mode = nvml.number("nvmlDeviceGetComputeMode", handle)
    return COMPUTE_MODES[mode] if mode < len(COMPUTE_MODES) else str(mode)


def power_limit(nvml, handle):
    return "%d W" % (nvml.number("nvmlDeviceGetPowerManagementLimit", handle) // 1000)


def clock(function, which):
    def read_clock(nvml, handle):
        return "%d MHz" % nvml.number(function, handle, ctypes.c_uint(which))

    return read_clock


def ecc_errors(nvml, handle):
    counts = [
        nvml.number(
            "nvmlDeviceGetTotalEccErrors",
            handle,
            ctypes.c_uint(kind),
            ctypes.c_uint(_SINCE_BOOT),
            kind=ctypes.c_ulonglong,
        )
        for kind in (_CORRECTED, _UNCORRECTED)
    ]
    return "%d corrected, %d uncorrected" % tuple(counts)


def temperature(nvml, handle):
    return "%d °C" % nvml.number("nvmlDeviceGetTemperature", handle, ctypes.c_uint(0))


def power(nvml, handle):
    return "%d W" % (nvml.number("nvmlDeviceGetPowerUsage", handle) // 1000)


def throttled(nvml, handle):
    name = "nvmlDeviceGetCurrentClocksThrottleReasons"
    bits = nvml.number(name, handle, kind=ctypes.c_ulonglong)
    words = [word for bit, word in enumerate(THROTTLED) if bits >> bit & 1]
    return ", ".join(words) or ("0x%x" % bits if bits else "no")


#: What does not change while a machine is up, unless somebody sets it.
HARDWARE = (
    ("driver", lambda nvml, _: nvml.text("nvmlSystemGetDriverVersion")),
    ("VBIOS", lambda nvml, handle: nvml.text("nvmlDeviceGetVbiosVersion", handle)),
    ("ECC", lambda nvml, handle: nvml.modes("nvmlDeviceGetEccMode", handle)),
    ("MIG", lambda nvml, handle: nvml.modes("nvmlDeviceGetMigMode", handle)),
    ("compute mode", compute_mode),
    ("PCI bus", pci_bus),
    ("power limit", power_limit),
    ("highest SM clock", clock("nvmlDeviceGetMaxClockInfo", _SM)),
)
#: What changes from moment to moment.
READINGS = (
    ("SM clock", clock("nvmlDeviceGetClockInfo", _SM)),
    ("memory clock", clock("nvmlDeviceGetClockInfo", _MEMORY)),
    ("temperature", temperature),
    ("power", power),
    ("throttled", throttled),
    ("ECC errors since the driver was loaded", ecc_errors),
)
