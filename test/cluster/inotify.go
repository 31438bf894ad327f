package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// inotifyLimit is the sysctl that bounds the inotify instances of a user, on all clusters together.
const inotifyLimit = "fs.inotify.max_user_instances"

// inotifyInstances are the inotify instances of a cluster, as counted: six of the API server, five of the controller
// manager, one of metrics-server. On each node they are six of the kubelet, one each of containerd and kube-proxy.
func (l Layout) inotifyInstances() int { return 12 + 8*len(l.nodes()) }

// checkInotify fails if fewer than the needed inotify instances are free for this user. Daemons without one end or hang,
// and their logs do not name the limit.
func checkInotify(needed int) error { return freeInotify(needed, openInotify) }

// freeInotify is checkInotify with instances that open makes, and that it gives back at the end.
func freeInotify(needed int, open func() (release func(), err error)) error {
	for free := range needed {
		release, err := open()
		if errors.Is(err, unix.EMFILE) {
			limit, _ := os.ReadFile("/proc/sys/" + strings.ReplaceAll(inotifyLimit, ".", "/"))
			return fmt.Errorf("%s is %s, and %d of the %d inotify instances that a cluster needs are free: take another cluster down, or raise it, as by sysctl -w %s=1024",
				inotifyLimit, strings.TrimSpace(string(limit)), free, needed, inotifyLimit)
		}
		if err != nil {
			return fmt.Errorf("open an inotify instance: %w", err)
		}
		defer release()
	}
	return nil
}

func openInotify() (release func(), err error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	return func() { _ = unix.Close(fd) }, err
}
