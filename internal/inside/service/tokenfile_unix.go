//go:build unix

package service

import (
	"os"
	"syscall"
)

// isMounted reports whether a file belongs to another user and is readable by a group only, as a mounted Secret is.
func isMounted(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid() && info.Mode().Perm()&0o037 == 0
}
