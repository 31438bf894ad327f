package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// busyEnv makes this program a process that uses a processor until it is killed.
const busyEnv = "TARE_BENCHDESIGN_BUSY"

// lowest is the priority of busy processes: processors are never idle, and others get them at once.
const lowest = 19

func keepBusy() {
	_ = syscall.Setpriority(0, 0, lowest) // 0, 0: this process; with its usual priority it takes time too
	for i := uint64(1); ; i++ {
		spin = spin*6364136223846793005 + i
	}
}

var spin uint64

// startBusy starts a busy process for each processor. stop ends them.
func startBusy(ctx context.Context) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	for range runtime.NumCPU() {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), busyEnv+"=1")
		if err = errors.Join(err, cmd.Start()); err == nil {
			all = append(all, cmd)
		}
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
