package experiment_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

// The Host of the load is the one of load.headers, else of the first request that has one.
func TestHeadersOfTheLoad(t *testing.T) {
	for load, want := range map[string]string{
		"{}":                           "",
		"{headers: {host: a.example}}": "a.example",
		"{headers: {Host: a.example}, requests: [{path: /, headers: {Host: b.example}}]}": "a.example",
		"{requests: [{path: /}, {path: /x, headers: {Host: b.example}}]}":                 "b.example",
	} {
		e, err := experiment.Parse("x.yaml", []byte(header+"factors: {mesh: [none]}\nload: "+load+"\n"), shipped())
		if err != nil {
			t.Fatalf("%s: %v", load, err)
		}
		if got := e.Load.Host(); got != want {
			t.Errorf("%s: %q, want %q", load, got, want)
		}
	}
	for file, want := range map[string]string{
		"factors: {mesh: [none]}\nload: {headers: {Connection: close}}\n":                "x.yaml:5:17: load.headers: header Connection: tare sets it",
		"factors: {mesh: [none]}\nload: {headers: {A: \"${lower}\"}}\n":                  "is not a placeholder",
		"factors: {mesh: [none], protocol: [tcp]}\nload: {headers: {Host: a.example}}\n": "x.yaml:5:17: load.headers: protocol tcp does not support headers",
	} {
		must.Fail(t, must.Err(experiment.Parse("x.yaml", []byte(header+file), shipped())), want, file)
	}
}

func TestWithSecrets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TARE_TEST_TOKEN", "s3cret")
	t.Setenv("TARE_TEST_LINES", "a\r\nX-Other: b")
	path := must.File(t, dir, "key", "k3y\n")
	got, err := experiment.WithSecrets("Bearer ${env:TARE_TEST_TOKEN}, ${file:" + path + "}")
	if err != nil || got != "Bearer s3cret, k3y" {
		t.Errorf("%q, %v", got, err)
	}
	for value, want := range map[string]string{
		"${env:TARE_TEST_ABSENT}":     "environment variable TARE_TEST_ABSENT is not set",
		"${env:TARE_TEST_LINES}":      "control characters",
		"${file:" + dir + "/nowhere}": "read header",
	} {
		if _, err := experiment.WithSecrets(value); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Other") {
			t.Errorf("%s: %v, want %q and no content", value, err, want)
		}
	}
}

// A stream is the only request of a load, and is read again as written.
func TestStreamsOfRequests(t *testing.T) {
	k := known
	k.Protocols = app.Protocols()
	text := header + "factors: {mesh: [none], protocol: [grpc]}\nload:\n  requests:\n    - {grpc: a.B/C, stream: both, messages: ['base64:Cv8=', x]}\n"
	e := must.Get(experiment.Parse("x.yaml", []byte(text), k))(t)
	if r := e.Load.Requests[0]; len(r.Messages) != 2 || string(r.Messages[0]) != "\n\xff" {
		t.Errorf("%+v", r)
	}
	sameAfterRendering(t, e, k)
	for text, want := range map[string]string{
		text + "    - {grpc: a.B/D}\n":                                                            "x.yaml:7:29: load.requests[0].stream: a stream must be the only request of the load",
		strings.Replace(text, "both", "all", 1):                                                   `x.yaml:7:29: load.requests[0].stream: unknown stream "all"`,
		strings.Replace(text, "stream: both, ", "", 1):                                            "x.yaml:7:31: load.requests[0].messages: a call without a stream",
		strings.Replace(text, ", messages: ['base64:Cv8=', x]", "", 1):                            "load.requests[0].stream: the client's stream has no message",
		strings.Replace(text, "both", "server", 1):                                                "load.requests[0].messages: the client sends one message",
		strings.NewReplacer("grpc: a.B/C, ", "path: /, ", ", protocol: [grpc]", "").Replace(text): "load.requests[0].stream: only a gRPC method has streams",
		strings.Replace(text, "protocol: [grpc]", "protocol: [http3]", 1):                         "x.yaml:4:36: factors.protocol[0]: unknown protocol \"http3\"",
		strings.Replace(text, "[grpc]", "[grpc, websocket]", 1):                                   "load.requests: protocol websocket does not support several requests",
	} {
		must.Fail(t, must.Err(experiment.Parse("x.yaml", []byte(text), k)), want, text)
	}
}

// The experiment of results of another person opens no file.
func TestRecordedExperimentOpensNoFile(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "results")
	must.OK(t, errors.Join(os.Mkdir(results, 0o700), os.WriteFile(filepath.Join(dir, "secret.yaml"), []byte("services: [{name: a}]\nentry: a\n"), 0o600)))
	for _, body := range []string{"load: {requests: [{path: /, bodyFile: ../secret.yaml}]}\n", "application: {topology: ../secret.yaml}\n", "load: {targets: ../secret.yaml}\n"} {
		text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: theirs}\nblocks: 1\n" + body
		path := must.File(t, results, "experiment.yaml", text)
		_, err := experiment.ReadRecord(path)
		must.Fail(t, err, "a recorded experiment has", body)
	}
}

// A results directory of a version with other fields is read. A file of the user with them is refused.
func TestRecordOfAnotherVersion(t *testing.T) {
	const text = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: earlier}\nblocks: 1\nfactors: {mesh: [none]}\nfuture: {a: 1}\nprobe: true\n" +
		"load: {arrivals: recorded, from: outside, templates: true, cookies: true, requests: [{path: /, at: 0 0.5}]}\n" +
		"platform: {kind: kubernetes, expose: portForward}\nmeshes: {istio: {withCLI: true, arguments: [--set, x=y]}}\n"
	x := must.Get(experiment.ReadRecord(must.File(t, t.TempDir(), "experiment.yaml", text)))(t)
	if x.Load.Arrivals != "constant" || x.Platform.Expose == "portForward" || len(x.Load.Requests) != 1 || x.Load.Requests[0].Path != "/" {
		t.Errorf("%+v", x.Load)
	}
	must.Fail(t, must.Err(experiment.Parse("x.yaml", []byte(text), experiment.Names{})), "load.templates: unknown field")
}
