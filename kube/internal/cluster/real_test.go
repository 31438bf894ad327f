package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// lines collects what a wait reports.
type lines struct {
	sync.Mutex
	all []string
}

func (l *lines) add(s string) {
	l.Lock()
	defer l.Unlock()
	l.all = append(l.all, s)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return strings.Join(l.all, "\n")
}

// signal sends one of the test cluster's daemons a signal.
func signal(t *testing.T, daemon, name string) error {
	t.Helper()
	program := os.Getenv("TARE_TEST_CLUSTER")
	if program == "" {
		t.Skip("TARE_TEST_CLUSTER names no program that could stop a daemon")
	}
	if out, err := exec.Command(program, "signal", daemon, name).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, daemon, err, out)
	}
	return nil
}

// stopAPIServer stops the API server where it is, and lets it go on after d, or when the test ends.
func stopAPIServer(t *testing.T, d time.Duration) {
	t.Helper()
	const server = "kube-apiserver"
	must.OK(t, signal(t, server, "stop"))
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-time.After(d):
		case <-ended:
		}
		if err := signal(t, server, "cont"); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		close(ended)
		<-done
	})
}
