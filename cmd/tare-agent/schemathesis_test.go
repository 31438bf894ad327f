package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// The interface matches its description, for generated requests that conform to
// it and for requests that violate it.
func TestRESTBySchemathesis(t *testing.T) {
	if testing.Short() || os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("installs schemathesis and sends thousands of requests: make e2e-all runs it")
	}
	program := programtest.Python(t, "schemathesis", "schemathesis==4.32.5")
	const token = "0123456789abcdef"
	tokenFile := must.File(t, t.TempDir(), "token", token)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	admin := l.Addr().String()
	l.Close()
	for _, protocol := range []string{"", "grpc"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			runServe(t, "", "--admin", admin, "--token-file", tokenFile, "--max-memory", "16MiB", "--protocol", protocol)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			config := must.Get(filepath.Abs("testdata/schemathesis.toml"))(t)
			cmd := exec.CommandContext(ctx, program, "--config-file", config, "run", "http://"+admin+"/openapi.json",
				"--header", "Authorization: Bearer "+token, "--max-examples", "50", "--generation-deterministic", "--no-color")
			cmd.Dir = t.TempDir() // it leaves files behind
			cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
