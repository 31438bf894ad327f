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
)

// A service and the study's server take calibration readings for clients with the token.
func TestProbeOverREST(t *testing.T) {
	_, _, admin := administered(t, app.Instance{})
	adder, err := NewAdderServer(Ways{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	study := httptest.NewServer(adder.Admin("0123456789abcdef"))
	t.Cleanup(study.Close)
	for name, at := range map[string]string{"service": admin, "adder": study.URL} {
		resp, body := ask(t, "POST", at+ProbePath, "")
		var r probe.Reading
		if err := json.Unmarshal([]byte(body), &r); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %s, %v: %s", name, resp.Status, err, body)
		}
		if us, ok := r.Microseconds(); !ok || us <= 0 || r.Work != probe.Work || r.At.IsZero() {
			t.Errorf("%s: %+v", name, r)
		}
		if resp, _ := ask(t, "POST", at+ProbePath, "", "Authorization", "Bearer another"); resp.StatusCode != 401 {
			t.Errorf("%s: with another token: %s", name, resp.Status)
		}
	}
	closed := httptest.NewRecorder()
	adder.Admin("").ServeHTTP(closed, httptest.NewRequest("POST", ProbePath, nil))
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
