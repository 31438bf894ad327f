package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/difftest"
)

// A service takes calibration readings for clients with the token.
func TestProbeOverREST(t *testing.T) {
	_, _, admin := administered(t, app.Instance{})
	resp, body := ask(t, "POST", admin+ProbePath, "")
	var r probe.Reading
	if err := json.Unmarshal([]byte(body), &r); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s, %v: %s", resp.Status, err, body)
	}
	if us, ok := r.Microseconds(); !ok {
		t.Errorf("%+v", r)
	} else if d := difftest.Wrong("us <= 0", us <= 0, "r.Work != probe.Work", r.Work != probe.Work, "r.At.IsZero()", r.At.IsZero()); d != "" {
		t.Errorf("%s: %+v", d, r)
	}
	if resp, _ := ask(t, "POST", admin+ProbePath, "", "Authorization", "Bearer another"); resp.StatusCode != 401 {
		t.Errorf("with another token: %s", resp.Status)
	}
	closed := httptest.NewRecorder()
	ProbeHandler("")(closed, httptest.NewRequest("POST", ProbePath, nil))
	if closed.Code != http.StatusForbidden {
		t.Errorf("without a token file: %d", closed.Code)
	}
}

// Concurrent readings would disturb each other.
func TestOneProbeAtATime(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	p := &prober{take: func(context.Context) (probe.Reading, error) {
		close(begun)
		<-end
		return probe.Reading{}, errors.New("no such processor")
	}}
	first, done := httptest.NewRecorder(), make(chan struct{})
	go func() { defer close(done); p.serve(first, httptest.NewRequest("POST", ProbePath, nil)) }()
	<-begun
	second := httptest.NewRecorder()
	p.serve(second, httptest.NewRequest("POST", ProbePath, nil))
	if second.Code != http.StatusConflict {
		t.Errorf("a second one: %d", second.Code)
	}
	close(end)
	<-done
	if first.Code != http.StatusInternalServerError || !strings.Contains(first.Body.String(), "no such processor") {
		t.Errorf("%d: %s", first.Code, first.Body)
	}
}
