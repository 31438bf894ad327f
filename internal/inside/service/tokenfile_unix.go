//go:build unix

package service

import (
	"os"
	"syscall"
)

// isMounted says that a file is not this process's own, and was given to it to read: by a group, as a Secret is that
// is mounted into a pod. What others do with a file of one's own is for its mode to forbid.
func isMounted(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid() && info.Mode().Perm()&0o037 == 0
}
