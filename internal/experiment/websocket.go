package experiment

import (
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

// WebSocket describes the messages of protocol websocket. Each message is a request.
type WebSocket struct {
	Answer   string `yaml:"answer,omitempty" json:"answer,omitempty"`     // echo (default) | message | pong
	Messages int    `yaml:"messages,omitempty" json:"messages,omitempty"` // that answer one, default 1
	// Message is sent, in place of a number of bytes.
	Message Body `yaml:"message,omitempty" json:"message,omitempty"`
}

// webSocket checks the messages of protocol websocket, and where it is used.
func (v loadRules) webSocket() {
	w := v.e.Load.WebSocket
	if !slices.Contains(v.requestProtocols(), app.WebSocket) {
		if v.doc.Has("load.webSocket") {
			v.report("load.webSocket", "write factors: {protocol: [websocket]}, or remove it", "no load has protocol websocket")
		}
		return
	}
	if !v.local() {
		at := "factors.protocol"
		if !v.doc.Has(at) {
			at = "application"
		}
		v.report(at, "write platform: {kind: local}", "protocol websocket is for this machine, and the platform is %s", v.e.Platform.Kind)
	}
	alone := !slices.ContainsFunc(v.requestProtocols(), func(p string) bool { return p != app.WebSocket })
	if v.doc.Has("factors.responseSize") && alone && w.Answer != load.AnswerMessage {
		v.report("factors.responseSize", "write load: {webSocket: {answer: message}}, or remove it", "an answer has the size of its message or none")
	}
	if len(w.Message) > MaxRequestBody {
		v.report("load.webSocket.message", "", "%d bytes, max %d", len(w.Message), MaxRequestBody)
	}
	if w.Message != "" && v.doc.Has("factors.requestSize") {
		v.report("factors.requestSize", "remove one of the two", "load.webSocket.message has the message")
	}
}
