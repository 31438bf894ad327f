//go:build !linux

package runner_test

import "syscall"

func diesWithItsParent() *syscall.SysProcAttr { return nil }
