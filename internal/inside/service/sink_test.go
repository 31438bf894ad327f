package service

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tare-mesh/tare/internal/base/rpc"
	"github.com/tare-mesh/tare/test/must"
)

func TestSinkCountsSpans(t *testing.T) {
	server := httptest.NewUnstartedServer(NewSink())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	span := rpc.Append(nil, 1, make([]byte, 16)) // trace_id
	scope := rpc.Append(rpc.Append(nil, 2, span), 2, span)
	resource := rpc.Append(rpc.Append(nil, 1, []byte{}), 2, scope)
	request := rpc.Append(rpc.Append(nil, 1, resource), 1, resource)
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	over := &http.Transport{Protocols: h2}
	const method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	host := server.Listener.Addr().String()
	if answer, err := rpc.Call(t.Context(), over, host, method, nil, rpc.Message{request}, 1000); err != nil || len(answer) != 0 {
		t.Fatalf("%q, %v", answer, err)
	}
	if _, err := rpc.Call(t.Context(), over, host, method, nil, rpc.Message{{0xff}}, 1000); err == nil {
		t.Error("a malformed message is accepted")
	}
	resp := must.Get(http.Get(server.URL + "/stats"))(t)
	defer resp.Body.Close()
	var got struct{ Exports, Spans int }
	text, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(text, &got); err != nil || got.Exports != 1 || got.Spans != 4 {
		t.Errorf("%s, %v", text, err)
	}
}
