package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/cli/console"
)

// streams are the outputs of this process. The reader of one may end before tare, as in
// `tare report DIR | head -1`.
type streams struct {
	gone atomic.Bool           // a reader ended
	lost atomic.Pointer[error] // the first output that was not written
	end  func()                // the context of the command
}

// watch returns a writer to f that notices the end of its reader, and output that is lost, as on a full disk. A terminal has neither.
func (s *streams) watch(f *os.File) io.Writer {
	if term.IsTerminal(int(f.Fd())) {
		return f
	}
	return &pipe{f, s}
}

// pipe is an output to another process or a file.
type pipe struct {
	to      *os.File
	streams *streams
}

func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.streams.gone.Store(true)
		p.streams.end() // as an interrupt: the trial is removed, and records are kept
		err = fmt.Errorf("%w: %w", console.ErrNoReader, err)
	} else if err != nil && p.to == os.Stdout {
		p.streams.lost.CompareAndSwap(nil, &err)
	}
	return n, err
}

// code is the exit code of the command.
func (s *streams) code(code int) int {
	if s.gone.Load() {
		return console.NoReader
	}
	if lost := s.lost.Load(); lost != nil && code == console.Done { // a command that failed has printed why
		fmt.Fprintf(os.Stderr, "tare: %v\n", *lost)
		return console.Failed
	}
	return code
}

// keepPipes makes a write without a reader an error. Otherwise SIGPIPE ends tare at once, and its
// deployment is left. Children get the default again, which they would not after signal.Ignore.
func keepPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
