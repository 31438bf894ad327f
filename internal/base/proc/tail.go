package proc

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

// tailBytes bounds a tail, in bytes.
const tailBytes = 32 << 10

type tail interface {
	last() []byte // the last tailBytes at most
}

// logFile is the tail of a log on disk, from where this process began to write.
type logFile struct {
	path string
	from int64
}

func (l logFile) last() []byte {
	f, err := os.Open(l.path)
	if err != nil {
		return []byte("(its log cannot be read: " + err.Error() + ")")
	}
	defer f.Close()
	at := l.from
	if info, err := f.Stat(); err == nil && info.Size()-tailBytes > at {
		at = info.Size() - tailBytes
	}
	b, err := io.ReadAll(io.NewSectionReader(f, at, tailBytes))
	if err != nil {
		return []byte("(its log cannot be read: " + err.Error() + ")")
	}
	return b
}

// ring keeps the last bytes written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte
}

func (r *ring) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, b...)
	if len(r.buf) > 2*tailBytes {
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-tailBytes:]...)
	}
	return len(b), nil
}

func (r *ring) last() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.buf[max(0, len(r.buf)-tailBytes):])
}

func lastLines(b []byte, n int) []string {
	text := strings.TrimRight(string(b), "\n")
	if text == "" || n <= 0 {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}
