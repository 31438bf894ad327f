package nodeagent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// files reads the counters of a control group by its path relative to a hierarchy. Version 1 has a
// hierarchy for each controller, version 2 one for all.
type files struct {
	cpu, throttling, memory string // directories
	version2                bool
}

// filesOf finds the hierarchies below root. A hybrid system has the controllers in version 1.
func filesOf(root string) (files, error) {
	for _, name := range []string{"cpuacct", "cpu,cpuacct", "cpuacct,cpu"} {
		dir := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(dir, usageV1)); err == nil {
			f := files{cpu: dir, throttling: dir, memory: filepath.Join(root, "memory")}
			if separate := filepath.Join(root, "cpu"); name == "cpuacct" {
				f.throttling = separate
			}
			// WalkDir does not enter a link, and cpuacct is one on some systems.
			if f.cpu, err = filepath.EvalSymlinks(dir); err != nil {
				return files{}, err
			}
			return f, nil
		}
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		return files{}, errors.Join(errNoCgroup, err)
	}
	return files{cpu: root, throttling: root, memory: root, version2: true}, nil
}

// Files of version 1 and 2.
const (
	usageV1 = "cpuacct.usage" // ns
	statV2  = "cpu.stat"      // "usage_usec 1\n…"
)

func (f files) exists(path string) bool {
	_, err := os.Stat(filepath.Join(f.cpu, path))
	return err == nil
}

// counters reads a container's group. Values that cannot be read are absent, but CPU time is required.
func (f files) counters(path string, memory bool) (c Counters, err error) {
	before := now()
	if c.CPU, err = f.cpuTime(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errNoGroup
		}
		return c, err
	}
	c.At = before + (now()-before)/2
	if !memory {
		return c, nil
	}
	c.Memory, _ = f.workingSet(path)
	c.Peak, _ = f.peak(path)
	f.throttled(path, &c)
	return c, nil
}

// cpuTime is a group's CPU time, ns.
func (f files) cpuTime(path string) (int64, error) {
	text, err := readFile(f.cpuFile(path))
	if err != nil {
		return 0, err
	}
	return f.parseCPU(text)
}

// cpuFile is the file with a group's CPU time.
func (f files) cpuFile(path string) string {
	if f.version2 {
		return filepath.Join(f.cpu, path, statV2)
	}
	return filepath.Join(f.cpu, path, usageV1)
}

// parseCPU reads the content of [files.cpuFile], ns.
func (f files) parseCPU(text []byte) (int64, error) {
	if f.version2 {
		us, err := field(text, "usage_usec")
		return us * int64(time.Microsecond), err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
}

// throttled adds time and periods of CPU throttling, where they are known.
func (f files) throttled(path string, c *Counters) {
	text, err := readFile(filepath.Join(f.throttling, path, "cpu.stat"))
	if err != nil {
		return
	}
	add := func(to **int64, name string, unit int64) {
		if n, err := field(text, name); err == nil {
			n *= unit
			*to = &n
		}
	}
	if f.version2 {
		add(&c.Throttled, "throttled_usec", int64(time.Microsecond))
	} else {
		add(&c.Throttled, "throttled_time", 1)
	}
	add(&c.Periods, "nr_periods", 1)
	add(&c.Reached, "nr_throttled", 1)
}

var memoryFiles = map[bool]struct{ usage, inactive, peak string }{
	false: {"memory.usage_in_bytes", "total_inactive_file", "memory.max_usage_in_bytes"},
	true:  {"memory.current", "inactive_file", "memory.peak"},
}

// workingSet is a group's memory without the inactive page cache, bytes, as cAdvisor computes it.
// The root group of version 2 has no such file.
func (f files) workingSet(path string) (int64, error) {
	names := memoryFiles[f.version2]
	used, err := f.memoryValue(path, names.usage)
	if err != nil {
		return 0, err
	}
	stat, err := readFile(filepath.Join(f.memory, path, "memory.stat"))
	if err != nil {
		return 0, err
	}
	inactive, err := field(stat, names.inactive)
	return max(0, used-inactive), err
}

// peak is the maximum memory of a group, bytes.
func (f files) peak(path string) (int64, error) {
	return f.memoryValue(path, memoryFiles[f.version2].peak)
}

func (f files) memoryValue(path, name string) (int64, error) {
	text, err := readFile(filepath.Join(f.memory, path, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
}

// maxFile is the max size of a file. memory.stat has 4 KiB.
const maxFile = 64 << 10

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// field is the number after a name, in lines of "NAME NUMBER".
func field(text []byte, name string) (int64, error) {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no field %s", name)
}

func now() int64 { return time.Now().UnixNano() }
