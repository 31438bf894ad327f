package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/test/cluster/internal/cgroup"
	"github.com/tare-mesh/tare/test/cluster/internal/debian"
)

// hidden are directories of the machine in whose place the cluster sees empty ones of its own. What it makes
// there (locks, sockets, mount points) is gone with it.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// layered are directories that the cluster sees with what the machine has there, and what it adds is its own: a
// mesh's CNI plug-in installs itself in them.
var layered = []string{"/etc", "/opt"}

// sysctls are settings of the whole machine that kubelet insists on. It is shown files with these values. The
// machine's own stay as they are.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// bridgeRules exists once the kernel has loaded its module br_netfilter.
const bridgeRules = "/proc/sys/net/bridge/bridge-nf-call-iptables"

// Inside is a node's first process: the parent of its daemons in namespaces that begin and end with it. It
// waits for its layout on r, which is whole or not there at all: if the process that brings the cluster up dies first,
// Inside ends too. It returns only with an error.
func Inside(r io.Reader) error {
	l, err := readNode(r)
	if err != nil {
		return err
	}
	if err := l.mounts(); err != nil {
		return fmt.Errorf("mount the cluster's directories: %w", err)
	}
	if err := unix.Sethostname([]byte(l.name())); err != nil {
		return fmt.Errorf("name the node: %w", err)
	}
	if err := l.connectInside(); err != nil {
		return err
	}
	// Without the second, what a pod answers another on the same bridge does not pass the rules that turn the
	// service's address into the pod's and back.
	for _, setting := range []string{"/proc/sys/net/ipv4/ip_forward", bridgeRules} {
		if err := os.WriteFile(setting, []byte("1"), 0); err != nil {
			return fmt.Errorf("forward packets: %w", err)
		}
	}
	return l.supervise()
}

// readNode reads the node that this process is the first of. Of several nodes, each begins again with its control
// group as the root.
func readNode(r io.Reader) (initProcess, error) {
	var n node
	text, again := os.LookupEnv(memberVariable)
	if again {
		r = strings.NewReader(text)
	}
	if err := json.NewDecoder(r).Decode(&n); err != nil {
		return initProcess{}, fmt.Errorf("read the cluster's layout: %w", err)
	}
	if !n.several() || again {
		return initProcess{n}, nil
	}
	data, err := json.Marshal(n)
	if err != nil {
		return initProcess{}, err
	}
	return initProcess{}, n.enterGroups(string(data))
}

// initProcess is the first process inside a node: it mounts, links, starts and reaps.
type initProcess struct{ node }

func (l initProcess) mounts() error {
	// Nothing that is mounted from here on is seen outside. Within, containers may share it (mount propagation).
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("/: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if l.several() {
		if err := enterGroup(); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("/: %w", err)
	}
	for _, dir := range hidden {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, dir := range layered {
		if err := overlay(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, s := range state {
		if s.at == "" {
			continue
		}
		if err := os.MkdirAll(s.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(l.own(s.dir), s.at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", s.at, err)
		}
	}
	for name, value := range sysctls {
		file := l.own("sysctl", strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/proc/sys/%s: %w", name, err)
		}
	}
	return l.plugins()
}

// enterGroup mounts the node's view of the control groups, and moves this process to the daemons in it.
func enterGroup() error {
	if err := cgroup.Remount(); err != nil {
		return err
	}
	root, err := cgroup.Find("")
	if err != nil {
		return err
	}
	return root.Add(os.Getpid())
}

// overlay keeps writes to dir in memory (/run is a tmpfs by now).
func overlay(dir string) error {
	upper, work := filepath.Join("/run/layers", dir), filepath.Join("/run/layers", dir+".work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("overlay", dir, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work))
}

// plugins puts the CNI plug-ins and their configuration where a mesh's own plug-in expects them.
func (l initProcess) plugins() error {
	const bin, conf = "/opt/cni/bin", "/etc/cni/net.d"
	for _, dir := range []string{bin, conf} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(debian.Plugins)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := os.Symlink(filepath.Join(debian.Plugins, e.Name()), filepath.Join(bin, e.Name()))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	data, err := os.ReadFile(l.own("cni.conflist"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(conf, "10-tare.conflist"), data, 0o644)
}

// supervise starts the daemons and reaps processes that end. A daemon that ends is named in the log and not
// restarted: a test that needs it should fail.
func (l initProcess) supervise() error {
	var children family
	failed := make(chan error, 1)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		if err := l.startAll(&children); err != nil {
			failed <- err
		}
	}()
	for {
		select {
		case err := <-failed:
			return err
		case <-ended:
			children.reap()
		}
	}
}

func (l initProcess) startAll(children *family) error {
	for _, d := range l.daemons() {
		if d.after != nil {
			if err := await(context.Background(), startLimit, d.name+" to be started", d.after(l.Layout)); err != nil {
				return err
			}
		}
		if err := children.start(l.node, d); err != nil {
			return err
		}
	}
	return nil
}

// environment of the daemons: what the user has set (a proxy, for one) is not theirs.
var environment = []string{"HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

// family are the processes that this one started, or that were orphaned and became its own. The lock is held
// while one is started, so that none ends before it has a name.
type family struct {
	sync.Mutex
	names map[int]string
}

func (f *family) start(l node, d daemon) error {
	f.Lock()
	defer f.Unlock()
	path, err := exec.LookPath(d.path(l.Layout))
	if err != nil {
		return fmt.Errorf("start %s: %w", d.name, err)
	}
	log, err := os.OpenFile(filepath.Join(l.Logs(), l.suffixed(d.name)+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.name, err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.name, err)
	}
	defer null.Close()
	pid, err := syscall.ForkExec(path, append([]string{d.name}, d.arguments(l)...), &syscall.ProcAttr{
		Dir: "/", Env: environment, Files: []uintptr{null.Fd(), log.Fd(), log.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", d.name, err)
	}
	if f.names == nil {
		f.names = map[int]string{}
	}
	f.names[pid] = d.name
	return nil
}

// reap takes the status of all that have ended: one signal may stand for many.
func (f *family) reap() {
	f.Lock()
	defer f.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
		if name, daemon := f.names[pid]; daemon {
			fmt.Fprintf(os.Stderr, "%s %s ended: %s\n", time.Now().UTC().Format(time.RFC3339), name, describe(status))
			delete(f.names, pid)
		}
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
