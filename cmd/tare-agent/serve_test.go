package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runServe runs the command until the test ends and returns the address in its ready line.
func runServe(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	cmd := newServeCommand()
	cmd.SetArgs(append(args, "--listen", "127.0.0.1:0"))
	cmd.SetOut(in)
	cmd.SetIn(strings.NewReader(stdin))
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // a port more is a line more
	_, address, ok := strings.Cut(strings.TrimSpace(line), " answers on ")
	if !ok {
		t.Fatalf("ready line: %q", line)
	}
	return address
}

func answer(t *testing.T, address string) (int, int64) {
	t.Helper()
	resp, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode, resp.ContentLength
}

func TestServe(t *testing.T) {
	const config = `{"name": "echo", "responseSize": 7, "status": 500}`
	file := filepath.Join(t.TempDir(), "echo.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		stdin  string
		args   []string
		status int
		length int64
	}{
		"flags":    {"", []string{"--response-size", "5"}, 200, 5},
		"file":     {"", []string{"--config", file}, 500, 7},
		"stdin":    {config, []string{"--config", "-"}, 500, 7},
		"override": {config, []string{"--config", "-", "--status", "201", "--response-size", "0"}, 201, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if status, length := answer(t, runServe(t, tc.stdin, tc.args...)); status != tc.status || length != tc.length {
				t.Errorf("status %d, length %d, want %d and %d", status, length, tc.status, tc.length)
			}
		})
	}
}

func TestServeCalls(t *testing.T) {
	back := runServe(t, "", "--response-size", "1")
	front := runServe(t, "", "--response-size", "2", "--call", "back=http://"+back+"/")
	if status, length := answer(t, front); status != 200 || length != 2 {
		t.Errorf("status %d, length %d", status, length)
	}
}

func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tc := range map[string]struct {
		args       []string
		want, hint string
	}{
		"taken port":    {[]string{"--listen", taken.Addr().String()}, "address already in use", "another process has this port"},
		"no file":       {[]string{"--config", "/nonexistent"}, "no such file", ""},
		"unknown field": {[]string{"--config", "-"}, "unknown field", ""},
		"bad call":      {[]string{"--call", "http//x"}, "is not NAME=URL", ""},
		"bad status":    {[]string{"--status", "99"}, "status 99 is not", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newServeCommand()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(tc.args)
			cmd.SetIn(strings.NewReader(`{"nme": "x"}`))
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v", err)
			}
			var hinted interface{ Hint() string }
			if tc.hint != "" && (!errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), tc.hint)) {
				t.Errorf("hint missing in %v", err)
			}
		})
	}
}
