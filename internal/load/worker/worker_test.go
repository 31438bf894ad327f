package worker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const (
	token   = "0123456789abcdefghij"
	roleEnv = "TARE_WORKER_TEST_ROLE"
	much    = 50 << 20 // bytes of a command's large output
)

// roles are the commands that this test binary implements.
var roles = map[string]func() error{
	"talk": func() error {
		line := make([]byte, 1<<20)
		for i := range much >> 20 {
			for j := range line {
				line[j] = byte(i*31 + j)
			}
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
		}
		return nil
	},
	"write": func() error {
		b, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "written")
		return errors.Join(os.WriteFile("latency.hdr", b, 0o600), os.Mkdir("deep", 0o700), os.WriteFile("deep/er", nil, 0o600), os.Symlink("/etc/passwd", "link"))
	},
	"fail": func() error { return errors.New("it went wrong") },
	"wait": func() error {
		fmt.Println("waiting")
		time.Sleep(time.Hour)
		return nil
	},
}

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleEnv)]; ok {
		if err := role(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve runs a server and returns its client. cut wraps the connections and may break them.
func serve(t *testing.T, cut func(net.Conn) net.Conn) *Client {
	t.Helper()
	s := must.Get(NewServer(token, t.TempDir()))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil || cut == nil {
			return c, err
		}
		return cut(c), nil
	}, token)
}

func command(id, role string) Command {
	return Command{ID: id, Path: os.Args[0], Env: []string{roleEnv + "=" + role, "GORACE=atexit_sleep_ms=0"}}
}

// cutting breaks a connection after a number of bytes was read from it.
type cutting struct {
	net.Conn
	left int
	cuts *atomic.Int64
}

func (c *cutting) Read(b []byte) (int, error) {
	if c.left <= 0 {
		c.cuts.Add(1)
		c.Close()
		return 0, errors.New("the connection was cut")
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// TestNoByteIsLost checks that every byte arrives once and in order over broken connections.
func TestNoByteIsLost(t *testing.T) {
	var cuts, dials atomic.Int64
	c := serve(t, func(conn net.Conn) net.Conn {
		return &cutting{conn, 100 + int(dials.Add(1))*1_000_003, &cuts}
	})
	r := must.Get(c.Start(t.Context(), command("talk", "talk")))(t)
	want := sha256.New()
	line := make([]byte, 1<<20)
	for i := range much >> 20 {
		for j := range line {
			line[j] = byte(i*31 + j)
		}
		want.Write(line)
	}
	got := sha256.New()
	must.OK(t, r.Copy(t.Context(), Stdout, got))
	s, err := r.Status(t.Context())
	if err != nil || !s.Ended {
		t.Errorf("%+v, %v", s, err)
	} else if d := difftest.Of("s.Exit", s.Exit, 0, "s.Stdout", s.Stdout, much); d != "" {
		t.Errorf("%s: %+v, %v", d, s, err)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("other bytes arrived than were written")
	}
	if cuts.Load() < 3 {
		t.Errorf("only %d connections were cut: nothing was tested", cuts.Load())
	}
}

func TestFilesAndFailure(t *testing.T) {
	c := serve(t, nil)
	cmd := command("write", "write")
	cmd.Stdin = bytes.Repeat([]byte("x"), 1<<20)
	r := must.Get(c.Start(t.Context(), cmd))(t)
	var stderr strings.Builder
	if err := r.Copy(t.Context(), Stderr, &stderr); err != nil || stderr.String() != "written\n" {
		t.Errorf("%q, %v", stderr.String(), err)
	}
	files := map[string]int{}
	must.OK(t, r.Files(t.Context(), func(name string, content io.Reader) error {
		b, err := io.ReadAll(content)
		files[name] = len(b)
		return err
	}))
	if len(files) != 2 || files["latency.hdr"] != 1<<20 {
		t.Errorf("%v", files)
	}
	// A second start with the same ID has no effect. A new ID starts a new run after the end of the first.
	if again, err := c.Start(t.Context(), cmd); err != nil || !again.first.Ended {
		t.Errorf("%+v, %v", again, err)
	}
	failing := must.Get(c.Start(t.Context(), command("fail", "fail")))(t)
	if err := failing.Copy(t.Context(), Stdout, io.Discard); err != nil {
		t.Error(err)
	}
	if s, err := failing.Status(t.Context()); err != nil || s.Exit != 3 || s.State != "exit status 3" {
		t.Errorf("%+v, %v", s, err)
	}
	must.Fail(t, must.Err(c.Start(t.Context(), Command{ID: "none", Path: "/nonexistent"})), "no such file", "a program that is not there")
}

func TestStop(t *testing.T) {
	c := serve(t, nil)
	r := must.Get(c.Start(t.Context(), command("wait", "wait")))(t)
	must.Fail(t, must.Err(c.Start(t.Context(), command("second", "wait"))), "still runs", "two at a time")
	if err := r.Files(t.Context(), nil); err == nil {
		t.Error("files of a command that still runs")
	}
	must.OK(t, r.Stop(t.Context(), 10*time.Second))
	must.OK(t, r.Copy(t.Context(), Stdout, io.Discard))
	if s, err := r.Status(t.Context()); err != nil || !s.Stopped {
		t.Errorf("%+v, %v", s, err)
	} else if d := difftest.Of("s.Exit", s.Exit, -1, "s.State", s.State, "signal: terminated"); d != "" {
		t.Errorf("%s: %+v, %v", d, s, err)
	}
}

func TestToken(t *testing.T) {
	c := serve(t, nil)
	c.token = "another token of some length"
	must.Fail(t, must.Err(c.Start(t.Context(), command("x", "fail"))), "token", "without the token")
}

// TestClock checks that a worker on the same machine has no clock offset.
func TestClock(t *testing.T) {
	ahead, unsure, err := serve(t, nil).Clock(t.Context())
	if err != nil || unsure < 0 || ahead.Abs() > unsure+time.Millisecond {
		t.Errorf("ahead %v ± %v, %v", ahead, unsure, err)
	}
}

func TestRetryTimeout(t *testing.T) {
	c := NewClient(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody there") }, token)
	c.RetryTimeout = 200 * time.Millisecond
	must.Fail(t, must.Err(c.Start(t.Context(), command("x", "fail"))), "nobody there")
}

// TestHostileArchive checks that no name in the archive escapes the directory.
func TestHostileArchive(t *testing.T) {
	for _, name := range []string{"../x", "/etc/passwd", "a/../../b", "..", `a\b`} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		must.OK(t, errors.Join(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg}), w.Close()))
		if err := readFiles(&b, func(string, io.Reader) error { return nil }); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
