package proc

import (
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/prometheus/procfs"
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
	p, err := procfs.NewProc(pid)
	if err != nil {
		return identity{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return identity{}, err
	}
	if stat.State == "Z" || stat.State == "X" {
		return identity{}, fs.ErrNotExist
	}
	return identity{PID: pid, Start: stat.Starttime, Boot: boot}, nil
}
