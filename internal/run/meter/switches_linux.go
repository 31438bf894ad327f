package meter

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// switches sums the context switches of a process's current threads, as the kernel keeps none of
// ended threads. It runs at the edges of the measure phase, and processes have many threads, so it
// avoids the garbage of a general parser and takes a third of its time.
func switches(pid int) (voluntary, involuntary int64) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return 0, 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, 0
	}
	buf := make([]byte, 4096)
	for _, name := range names {
		status, err := readAt(int(dir.Fd()), name+"/status", buf)
		if err != nil {
			continue // the thread has ended
		}
		voluntary += field(status, "\nvoluntary_ctxt_switches:")
		involuntary += field(status, "\nnonvoluntary_ctxt_switches:")
	}
	return voluntary, involuntary
}

// readAt reads a file that fits into buf, as the files of one thread do.
func readAt(dir int, name string, buf []byte) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	return buf[:max(n, 0)], err
}

// field is the number after name, or 0.
func field(status []byte, name string) (n int64) {
	i := bytes.Index(status, []byte(name))
	if i < 0 {
		return 0
	}
	for _, c := range bytes.TrimLeft(status[i+len(name):], " \t") {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
