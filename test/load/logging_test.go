package load

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

const caddyConfig = `
{
	admin off
	servers {
		protocols h1 h2c
	}
}
http://%[2]s:8080 {
	log {
		output file %[1]s/access.log
		format json
	}
	root * %[1]s
	file_server
}
`

const h2oConfig = `
listen: {host: %[2]s, port: 8080}
user: %[3]s
hosts:
  default:
    paths:
      /: {file.dir: %[1]s}
access-log: {path: %[1]s/access.log, format: "%%s"}
`

// TestServersWithLogs compares counts and statuses with the access logs of Caddy and h2o.
func TestServersWithLogs(t *testing.T) {
	tare := build(t)
	for _, server := range []struct {
		name, config string
		args         []string // of the server, before the name of the configuration
		status       func(line string) string
	}{
		{"caddy", caddyConfig, []string{"run", "--adapter", "caddyfile", "--config"}, func(line string) string {
			var entry struct{ Status int }
			_ = json.Unmarshal([]byte(line), &entry)
			return strconv.Itoa(entry.Status)
		}},
		{"h2o", h2oConfig, []string{"-c"}, strings.TrimSpace},
	} {
		for _, args := range []string{
			"-n 1000 -c 4 http://{host}:8080/hello", "-n 300 -c 4 --no-keepalive http://{host}:8080/hello", "-n 300 -c 4 -m HEAD http://{host}:8080/hello",
			"-n 300 -c 4 http://{host}:8080/missing", "-n 20 -c 2 http://{host}:8080/large",
			"-n 1000 -c 4 --http2 http://{host}:8080/hello", "-n 300 -c 4 --http2 -m HEAD http://{host}:8080/hello", "-n 20 -c 2 --http2 http://{host}:8080/large",
		} {
			t.Run(server.name+" "+strings.ReplaceAll(args, "http://{host}:8080", ""), func(t *testing.T) {
				dir, at, user := t.TempDir(), host(), strconv.Itoa(os.Getuid())
				if user == "0" {
					user = "root"
				}
				path := program(t, server.name)
				t.Setenv("HOME", dir)
				write(t, dir, "hello", "hello")
				write(t, dir, "large", strings.Repeat("x", 1<<20))
				config := write(t, dir, "config", fmt.Sprintf(server.config, dir, at, user))
				p := launch(t, path, append(server.args, config)...)
				p.await(t, "tcp", at+":8080")
				o := run(t, tare, time.Minute, strings.Fields("--warmup 0s "+strings.ReplaceAll(args, "{host}", at))...)
				p.stop(t, syscall.SIGTERM)
				b := must.Get(os.ReadFile(filepath.Join(dir, "access.log")))(t)
				c := counted{statuses: map[string]int64{}}
				for line := range strings.Lines(string(b)) {
					c.requests++
					c.statuses[server.status(line)]++
				}
				agree(t, &o.report, c, false)
			})
		}
	}
}
