package meter

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/result"
)

const governorGlob = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"

// Host describes this machine. Properties that cannot be read are absent.
func Host() result.Environment {
	env := result.Environment{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Kernel: kernel(), Governor: governor()}
	pfs, err := procfs.NewDefaultFS()
	if err != nil {
		return env
	}
	// All processors of the machine, not only those available to this process.
	if stat, err := pfs.Stat(); err == nil && len(stat.CPU) > 0 {
		env.CPUs = len(stat.CPU)
	}
	if cpus, err := pfs.CPUInfo(); err == nil {
		env.CPUModel = model(cpus)
	}
	if mem, err := pfs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		env.MemoryMB = int64(*mem.MemTotalBytes / 1e6)
	}
	return env
}

// AvailableMemory is the memory that new processes can use without swapping, in bytes, 0 if unknown.
func AvailableMemory() int64 {
	pfs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	mem, err := pfs.Meminfo()
	if err != nil || mem.MemAvailableBytes == nil {
		return 0
	}
	return int64(*mem.MemAvailableBytes)
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// model names every processor model of the machine. A machine may have two.
func model(cpus []procfs.CPUInfo) string {
	var names []string
	for _, c := range cpus {
		if c.ModelName != "" {
			names = append(names, strings.Join(strings.Fields(c.ModelName), " "))
		}
	}
	return distinct(names)
}

// governor is the frequency governor: with any other than "performance", equal work takes different times.
func governor() string {
	paths, err := filepath.Glob(governorGlob)
	if err != nil {
		return ""
	}
	var names []string
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil {
			names = append(names, strings.TrimSpace(string(b)))
		}
	}
	return distinct(names)
}

func distinct(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
