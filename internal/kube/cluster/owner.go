package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Owner is the process of tare that put an object into a cluster, told from every other process: a number is used
// again, so the start time belongs to it; a number means something in one PID namespace of one boot only.
type Owner struct {
	Host    string `json:"host"`
	Machine string `json:"machine,omitempty"` // /etc/machine-id
	Boot    string `json:"boot,omitempty"`    // the kernel's boot ID
	PIDs    string `json:"pids,omitempty"`    // the PID namespace, as /proc/self/ns/pid has it
	PID     int    `json:"pid"`
	Start   uint64 `json:"start,omitempty"` // clock ticks since boot, field 22 of /proc/PID/stat; 0 where there is no /proc
	User    string `json:"user,omitempty"`
	Since   string `json:"since,omitempty"` // RFC 3339: when the process was first asked
}

// initialPIDs is the PID namespace a machine boots with (PROC_PID_INIT_INO of the kernel): that of no container.
const initialPIDs = "pid:[4026531836]"

// State says what is known of a run's process.
type State string

// States of an owner as they are seen from this process.
const (
	Alive     State = "alive"     // it runs on this machine
	Dead      State = "dead"      // it ran on this machine, and runs no more
	Elsewhere State = "elsewhere" // another machine's, or another container's: whether it runs cannot be seen from here
	Unmarked  State = "unmarked"  // who put it there was not recorded
)

// ThisProcess is the owner that this process is.
var ThisProcess = sync.OnceValue(func() Owner {
	o := Owner{PID: os.Getpid(), Machine: firstLine("/etc/machine-id"), Boot: firstLine("/proc/sys/kernel/random/boot_id"),
		Since: time.Now().UTC().Format(time.RFC3339)}
	o.Host, _ = os.Hostname()
	o.PIDs, _ = os.Readlink("/proc/self/ns/pid")
	o.Start, _ = startOf(o.PID)
	if u, err := user.Current(); err == nil {
		o.User = u.Username
	}
	return o
})

// State tells whether the owner still lives, as far as can be seen from this process. It errs on the side of life: only what
// is known to be dead is swept unasked.
func (o Owner) State() State { return o.seenFrom(ThisProcess()) }

func (o Owner) seenFrom(here Owner) State {
	switch {
	case o.PID <= 0:
		return Unmarked
	case o.Host != here.Host:
		return Elsewhere
	case o.Boot != here.Boot:
		// The machine was started anew since. Containers share a name and a machine-id more easily than machines do.
		if o.Machine != "" && o.Machine == here.Machine && o.PIDs == initialPIDs && here.PIDs == initialPIDs {
			return Dead
		}
		return Elsewhere
	case o.PIDs != here.PIDs:
		return Elsewhere
	}
	start, err := startOf(o.PID)
	if errors.Is(err, errGone) || err == nil && start != o.Start {
		return Dead
	}
	return Alive
}

// String is how people name the owner.
func (o Owner) String() string {
	if o.PID <= 0 {
		return "unknown"
	}
	who := fmt.Sprintf("process %d on %s", o.PID, o.Host)
	if o.User != "" {
		who += " (" + o.User + ")"
	}
	if o.Since != "" {
		who += " since " + o.Since
	}
	return who
}

var errGone = errors.New("no such process")

// startOf is when a process started, 0 where that cannot be read; errGone when it has ended (a zombie has).
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		// Without /proc, or with one that hides others' processes, the number is all there is to go by.
		if killed := syscall.Kill(pid, 0); errors.Is(killed, syscall.ESRCH) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)) {
			return 0, errGone
		}
		return 0, err
	}
	// The name in field 2 may hold spaces and parentheses: the fields go on after the last one.
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errGone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}
