package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
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
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	go func() { _, _ = io.Copy(io.Discard, out) }() // each further port prints a line
	_, address, ok := strings.Cut(strings.TrimSpace(line), " answers on ")
	if !ok {
		t.Fatalf("ready line: %q", line)
	}
	return address
}

func answer(t *testing.T, address string) (int, int64) {
	t.Helper()
	resp := must.Get(http.Get("http://" + address))(t)
	resp.Body.Close()
	return resp.StatusCode, resp.ContentLength
}

func TestServe(t *testing.T) {
	const config = `{"name": "echo", "responseSize": 7, "status": 500}`
	file := must.File(t, t.TempDir(), "echo.json", config)
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
	for _, call := range []string{"back=http://" + back + "/", "{service: back, urls: ['http://" + back + "/'], probability: 1}"} {
		front := runServe(t, "", "--response-size", "2", "--call", call)
		if status, length := answer(t, front); status != 200 || length != 2 {
			t.Errorf("%s: status %d, length %d", call, status, length)
		}
	}
}

// A field without a flag keeps the value of the file.
func TestServeOverridesFieldByField(t *testing.T) {
	const config = `{"name": "echo", "errors": {"ratio": 0, "status": 503}}`
	if status, _ := answer(t, runServe(t, config, "--config", "-", "--error-ratio", "1")); status != 503 {
		t.Errorf("status %d, want that of the file, 503", status)
	}
}

func TestExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		code    int
		message string
	}{
		"none":     {nil, 0, ""},
		"mistakes": {strict.Problems{{File: "f", Line: 1, Column: 2, Message: "no", Tip: "yes"}, {File: "f", Message: "nor this"}}, 2, "tare-agent: f:1:2: no\nhint: yes\ntare-agent: f: nor this\n"},
		"flag":     {hint.Usage(errors.New("no flag"), "look"), 2, "tare-agent: no flag\nhint: look\n"},
		"command":  {usage(newSinkCommand().Args(newSinkCommand(), []string{"nope"})), 2, "tare-agent: unknown command \"nope\" for \"sink\"\nhint: `tare-agent --help` lists the commands\n"},
		"wrapped":  {usage(errors.New("gone: unknown command ")), 1, "tare-agent: gone: unknown command\n"},
		"other":    {errors.New("gone"), 1, "tare-agent: gone\n"},
	} {
		var out strings.Builder
		if code := console.Exit(&out, "tare-agent", tc.err); code != tc.code || out.String() != tc.message {
			t.Errorf("%s: %d, %q", name, code, out.String())
		}
	}
}

func TestServeRefuses(t *testing.T) {
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	for name, tc := range map[string]struct {
		args       []string
		want, hint string
	}{
		"taken port":     {[]string{"--listen", taken.Addr().String()}, "address already in use", "another process has this port"},
		"no file":        {[]string{"--config", "/nonexistent"}, "no such file", ""},
		"unknown field":  {[]string{"--config", "-"}, "standard input:1:2: nme: unknown field", ""},
		"bad call":       {[]string{"--call", "http//x"}, "is not NAME=URL", ""},
		"bad call field": {[]string{"--call", "{service: x, urls: ['http://x/'], retrys: 1}"}, "retrys: unknown field", ""},
		"call by ftp":    {[]string{"--call", "x=ftp://x/"}, `service service: calls[0].urls[0]: "ftp://x/" is not an http URL`, ""},
		"bad status":     {[]string{"--status", "99"}, "status: 99 is not from 200 to 599", ""},
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
			must.Contain(t, hint.Of(err), tc.hint)
		})
	}
}
