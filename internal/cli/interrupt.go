package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/cli/console"
)

// Undoing is the message of the first interrupt of a command that undoes its changes.
const Undoing = "\ntare: interrupted: undoing the changes; press Ctrl-C twice more to stop immediately"

// WhileInterrupted sets what the first interrupt does, until the returned function is called. Without it a second interrupt
// ends the program at once.
func (c *CommandLine) WhileInterrupted(leave func(), message string) func() {
	return c.atInterrupt(true, leave, message)
}

// atInterrupt is [CommandLine.WhileInterrupted]. Without anything to clean up, the command ends soon after the first interrupt.
func (c *CommandLine) atInterrupt(cleans bool, leave func(), message string) func() {
	put := func(set bool, leave func(), message string) {
		c.first.mu.Lock()
		defer c.first.mu.Unlock()
		c.first.set, c.first.leave, c.first.message = set, leave, message
	}
	put(cleans, leave, message)
	return func() { put(false, nil, "") }
}

// interruptSelf is the interrupt of a key: a terminal in raw mode sends no signal.
func interruptSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }

// unheededWithin is the time of a command with nothing to clean up from the first interrupt to its end. Analysis of a
// damaged directory, for example, does not check the context.
var unheededWithin = 5 * time.Second

// interrupts returns a context that ends at the first interrupt (drain, remove,
// keep the records) and one that ends at the second (stop now). Without anything to clean up the second ends the program,
// and so does the first after some seconds.
func interrupts(stderr io.Writer, first *interruption) (ctx, kill context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	kill, cancelKill := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP) // the terminal, such as an SSH session's, is gone
	}
	done := make(chan struct{})
	go routine.Guarded(func() {
		for _, act := range []func(){
			func() {
				first.begin(stderr)
				cancel()
				if !first.cleans() {
					time.AfterFunc(unheededWithin, func() {
						fmt.Fprintln(stderr, "tare: interrupted")
						os.Exit(console.Interrupted)
					})
				}
			},
			func() {
				if !first.cleans() {
					os.Exit(console.Interrupted)
				}
				cancelKill()
			},
			func() { os.Exit(console.Interrupted) },
		} {
			select {
			case <-signals:
				act()
			case <-done:
				return
			}
		}
	})()
	return ctx, kill, func() {
		signal.Stop(signals)
		close(done)
		cancel()
		cancelKill()
	}
}

// interruptedRun is the message of the first interrupt of a command that runs trials.
const interruptedRun = "\ntare: interrupted: removing the running trial, keeping finished trials; press Ctrl-C again to stop immediately"

// interruption is the work of the first interrupt before it ends the context.
type interruption struct {
	mu      sync.Mutex
	set     bool // there is something to clean up, until the second interrupt
	leave   func()
	message string
}

// begin makes the terminal as it was before the command, and prints the message.
func (i *interruption) begin(stderr io.Writer) {
	i.mu.Lock()
	leave, message := i.leave, i.message
	i.mu.Unlock()
	if leave != nil {
		leave()
	}
	if message != "" {
		fmt.Fprintln(stderr, message)
	}
}

// cleans reports whether a command still cleans up after the first interrupt.
func (i *interruption) cleans() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.set
}

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
