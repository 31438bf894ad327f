package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// inotifyLimit is the sysctl that bounds the inotify instances of a user, on all clusters together.
const inotifyLimit = "fs.inotify.max_user_instances"

// inotifyRaised is the limit while a cluster is up. The sidecars of a node, about three instances each, have the same user. The default of
// 128 suffices for 42.
const inotifyRaised = 8192

// inotifySetting is the file of the limit, and the file that keeps the machine's own value while clusters are up.
type inotifySetting struct{ now, own string }

func (l Layout) inotifySetting() inotifySetting {
	return inotifySetting{"/proc/sys/" + strings.ReplaceAll(inotifyLimit, ".", "/"), filepath.Join(l.Root, "inotify")}
}

// raise raises the limit. Where settings are read-only, it stays.
func (s inotifySetting) raise() error {
	text, err := os.ReadFile(s.now)
	if err != nil {
		return fmt.Errorf("raise %s: %w", inotifyLimit, err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || n >= inotifyRaised {
		return err
	}
	if err := os.WriteFile(s.own, text, 0o600); err != nil {
		return fmt.Errorf("raise %s: %w", inotifyLimit, err)
	}
	if os.WriteFile(s.now, []byte(strconv.Itoa(inotifyRaised)), 0o600) != nil {
		return os.Remove(s.own)
	}
	return nil
}

// restore restores the machine's own limit.
func (s inotifySetting) restore() error {
	text, err := os.ReadFile(s.own)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(s.now, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", inotifyLimit, err)
	}
	return os.Remove(s.own)
}

// restoreInotify restores the limit after the last cluster of the root.
func (l Layout) restoreInotify(ctx context.Context) error {
	unlock, err := l.lockNetwork(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	up, err := os.ReadDir(filepath.Dir(l.Dir()))
	if len(up) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.inotifySetting().restore()
}

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
			limit, _ := os.ReadFile((Layout{}).inotifySetting().now)
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
