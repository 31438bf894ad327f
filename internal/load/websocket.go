package load

import "github.com/tare-mesh/tare/internal/base/hint"

// Protocol websocket: a request is a message, and its answer messages on the same connection.

// schemeWS and SchemeWSS are the schemes of a target of protocol websocket, plain and over TLS.
const (
	schemeWS  = "ws"
	SchemeWSS = "wss"
)

// WebSocket describes the answer to a request of protocol websocket.
type WebSocket struct {
	// Answer is one of AnswerEcho (default), AnswerMessage and AnswerPong.
	Answer string `json:"answer,omitempty"`
	// Messages is the number of messages that answer one, default 1.
	Messages int `json:"messages,omitempty"`
}

// Answers to a message.
const (
	AnswerEcho    = "echo"    // the same message
	AnswerMessage = "message" // any message, which must pass the checks of answers
	// AnswerPong is the answer to a ping that follows the message: for streams to a server that does
	// not answer. A server reads frames in order.
	AnswerPong = "pong"
)

// MaxSocketMessages is the max number of messages that answer one.
const MaxSocketMessages = 1_000_000

// validateWebSocket adds the mistakes in a load over WebSocket.
func (p *Profile) validateWebSocket(m *mistakes) {
	if p.Protocol != ProtocolWebSocket {
		m.refuse("webSocket", p.WebSocket != nil, "answers of a WebSocket with protocol %s", p.Protocol)
		return
	}
	w := p.WebSocket // with its defaults
	m.refuse("webSocket.answer", w.Answer != AnswerEcho && w.Answer != AnswerMessage && w.Answer != AnswerPong, "answer %q is none of %s, %s, %s", w.Answer, AnswerEcho, AnswerMessage, AnswerPong)
	m.refuse("webSocket.messages", w.Messages < 0 || w.Messages > MaxSocketMessages, "%d messages are not between 1 and %d", w.Messages, MaxSocketMessages)
	if w.Messages > 1 && w.Answer != AnswerMessage {
		m.add("webSocket.messages", hint.New("write answer: message", "answer %s is one message", w.Answer))
	}
	if checked := len(p.BodyHas)+len(p.BodyLacks)+len(p.JSONHas)+len(p.JSONLacks) > 0 || p.ExpectSize >= 0; checked && w.Answer != AnswerMessage {
		m.add("checks", hint.New("in an experiment, load.webSocket: {answer: message} has checks", "protocol websocket compares each answer with its message"))
	}
}

// Status codes of a close (RFC 6455 section 7.4.1).
const (
	CloseNormal   = 1000
	CloseNoStatus = 1005 // never sent: a close without a status
)

// closeFailures are the failures of requests whose connection the server closes, by status.
var closeFailures = map[uint16]Failure{
	1000: FailureClose1000, 1001: FailureClose1001, 1002: FailureClose1002, 1003: FailureClose1003, CloseNoStatus: FailureCloseNoStatus, 1007: FailureClose1007,
	1008: FailureClose1008, 1009: FailureClose1009, 1011: FailureClose1011, 1012: FailureClose1012, 1013: FailureClose1013,
}

// CloseFailure is the failure by the status of a close.
func CloseFailure(code uint16) Failure {
	if k, ok := closeFailures[code]; ok {
		return k
	}
	return FailureCloseOther
}
