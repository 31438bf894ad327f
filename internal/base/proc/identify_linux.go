package proc

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
)

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// identify reads who a process is. It returns fs.ErrNotExist when it has ended (a zombie has).
func identify(pid int) (identity, error) {
	boot, err := bootID()
	if err != nil {
		return identity{}, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, err
	}
	// The name in field 2 may hold spaces and parentheses: the fields go on after the last one.
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return identity{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return identity{}, fs.ErrNotExist
	}
	start, err := strconv.ParseUint(fields[19], 10, 64) // field 22 of the line
	if err != nil {
		return identity{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return identity{PID: pid, Start: start, Boot: boot}, nil
}
