package console

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// Keys calls press for each key on a terminal until ctx ends, and then restores the terminal. The
// terminal shows no keys meanwhile, but its interrupts work as before. Without a terminal, or in
// the background, it does nothing, and wait is nil. wait returns when the terminal is as it was.
func Keys(ctx context.Context, in io.Reader, press func(key byte)) (wait func()) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || !inForeground(f) {
		return nil
	}
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTerminal)
	if err != nil {
		return nil
	}
	single := *before
	single.Lflag &^= unix.ICANON | unix.ECHO
	single.Cc[unix.VMIN], single.Cc[unix.VTIME] = 0, 2 // a read ends after 0.2 s
	if unix.IoctlSetTermios(fd, setTerminal, &single) != nil {
		return nil
	}
	done := make(chan struct{})
	go routine.Guarded(func() {
		defer close(done)
		defer func() { _ = unix.IoctlSetTermios(fd, setTerminal, before) }()
		var key [1]byte
		for ctx.Err() == nil && inForeground(f) {
			switch n, err := unix.Read(fd, key[:]); {
			case n == 1:
				press(key[0])
			case err != nil && err != unix.EINTR:
				return
			}
		}
	})()
	return func() { <-done }
}

// inForeground reports whether this process may use its terminal: one in the background would be
// stopped.
func inForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
