"""Writes the machines of this folder that no synthetic description of hwloc can say: those whose CPUs
differ. hwloc 2 reads each file and writes it anew, so that nothing inconsistent stays in it."""

import subprocess

KIB = 1024


class Machine:
    def __init__(self):
        self.objects = 0

    def object(self, kind, cpus, inside="", **attributes):
        self.objects += 1
        mask = f"{sum(1 << cpu for cpu in cpus):#010x}"
        attributes.update(cpuset=mask, complete_cpuset=mask, gp_index=self.objects)
        attributes.update(nodeset="0x1", complete_nodeset="0x1")
        text = " ".join(f'{name}="{value}"' for name, value in attributes.items())
        return f'<object type="{kind}" {text}>{inside}</object>'

    def core(self, index, cpus):
        threads = "".join(self.object("PU", [cpu], os_index=cpu) for cpu in cpus)
        return self.object("Core", cpus, threads, os_index=index)

    def cache(self, level, kib, ways, cpus, inside, line=64, instructions=False):
        kind = 2 if instructions else 1 if level == 1 else 0
        return self.object(
            f"L{level}{'i' if instructions else ''}Cache", cpus, inside, depth=level, cache_type=kind,
            cache_size=kib * KIB, cache_linesize=line, cache_associativity=ways)

    def write(self, name, cpus, inside, kinds=()):
        memory = self.object("NUMANode", cpus, os_index=0, local_memory=1 << 30)
        package = self.object("Package", cpus, memory + inside, os_index=0)
        allowed = f"{sum(1 << cpu for cpu in cpus):#010x}"
        whole = self.object("Machine", cpus, package, os_index=0, allowed_cpuset=allowed,
                            allowed_nodeset="0x1")
        text = "".join(
            f'<cpukind cpuset="{sum(1 << cpu for cpu in of):#010x}" forced_efficiency="{rank}">'
            f'<info name="CoreType" value="{kind}"/></cpukind>'
            for rank, (kind, of) in enumerate(kinds))
        with open(name, "w") as file:
            file.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
                       f'<topology version="2.0">{whole}{text}</topology>\n')
        subprocess.run(["lstopo-no-graphics", "-i", name, "--of", "xml", "-f", name], check=True)


def intel_hybrid():
    m = Machine()

    def performance(core):
        cpus = [2 * core, 2 * core + 1]
        l1i = m.cache(1, 32, 8, cpus, m.core(core, cpus), instructions=True)
        return m.cache(2, 1280, 10, cpus, m.cache(1, 48, 12, cpus, l1i))

    def efficient(cpus):
        l1 = "".join(
            m.cache(1, 32, 8, [cpu],
                    m.cache(1, 64, 8, [cpu], m.core(cpu - 2, [cpu]), instructions=True))
            for cpu in cpus)
        return m.cache(2, 2048, 16, cpus, l1)

    ring = m.cache(3, 12288, 12, range(8),
                   performance(0) + performance(1) + efficient(range(4, 8)))
    m.write("intel_hybrid.xml", range(10), ring + efficient(range(8, 10)),
            [("IntelAtom", range(4, 10)), ("IntelCore", range(4))])


def arm(name, cpus, caches, around=lambda m, inside: inside, kinds=()):
    """Private L1d and L2, one thread per core; caches(cpu) = (L1 KiB, ways), (L2 KiB, ways)."""
    m = Machine()
    inside = ""
    for cpu in cpus:
        (l1, l1_ways), (l2, l2_ways) = caches(cpu)
        inside += m.cache(2, l2, l2_ways, [cpu], m.cache(1, l1, l1_ways, [cpu], m.core(cpu, [cpu])))
    m.write(name, cpus, around(m, inside), kinds)


def arm_wide_lines():
    m = Machine()
    groups = ""
    for first in (0, 12):
        cpus = range(first, first + 12)
        l1 = "".join(m.cache(1, 64, 4, [cpu], m.core(cpu, [cpu]), line=256) for cpu in cpus)
        groups += m.cache(2, 8192, 16, cpus, l1, line=256)
    m.write("arm_wide_lines.xml", range(24), groups)


intel_hybrid()
arm("arm_big_little.xml", range(8),
    lambda cpu: ((32, 4), (128, 4)) if cpu < 4 else ((64, 4), (512, 8)),
    lambda m, inside: m.cache(3, 4096, 16, range(8), inside),
    [("little", range(4)), ("big", range(4, 8))])
arm("arm_neoverse.xml", range(8), lambda cpu: ((64, 4), (1024, 8)))
arm_wide_lines()
