package etcd

// The messages of etcd's JSON gateway, as far as they are used (etcd's rpc.proto, version
// 3.4). An int64 is a string, bytes are base64, and zero or empty fields are left out.

type header struct {
	Revision int64 `json:"revision,string"`
}

type keyValue struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
	ModRevision int64  `json:"mod_revision,string"`
}

type rangeRequest struct {
	Key      []byte `json:"key"`
	RangeEnd []byte `json:"range_end,omitempty"`
	Limit    int64  `json:"limit,string,omitempty"`
}

type rangeResponse struct {
	Header header     `json:"header"`
	KVs    []keyValue `json:"kvs"`
	More   bool       `json:"more"`
}

// first returns the only key that was asked for; zero if the key does not exist.
func (r *rangeResponse) first() keyValue {
	if r == nil || len(r.KVs) == 0 {
		return keyValue{}
	}
	return r.KVs[0]
}

type putRequest struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

type deleteRequest struct {
	Key []byte `json:"key"`
}

// The targets of a compare. A key that does not exist has the create and mod revision 0.
const (
	compareValue  = "VALUE"
	compareCreate = "CREATE"
	compareMod    = "MOD"
)

// compare is the condition that a property of a key has the given value.
type compare struct {
	Key         []byte `json:"key"`
	Target      string `json:"target"`
	Value       []byte `json:"value,omitempty"`
	ModRevision int64  `json:"mod_revision,string,omitempty"`
}

// operation has one field that is not nil.
type operation struct {
	Range  *rangeRequest  `json:"requestRange,omitempty"`
	Put    *putRequest    `json:"requestPut,omitempty"`
	Delete *deleteRequest `json:"requestDeleteRange,omitempty"`
}

func get(key []byte) operation        { return operation{Range: &rangeRequest{Key: key}} }
func put(key, value []byte) operation { return operation{Put: &putRequest{Key: key, Value: value}} }
func remove(key []byte) operation     { return operation{Delete: &deleteRequest{Key: key}} }

type txnRequest struct {
	Compare []compare   `json:"compare,omitempty"`
	Success []operation `json:"success,omitempty"`
	Failure []operation `json:"failure,omitempty"`
}

type txnResponse struct {
	Header    header `json:"header"`
	Succeeded bool   `json:"succeeded"`
	Responses []struct {
		Range *rangeResponse `json:"response_range"`
	} `json:"responses"`
}

// read returns the key that the operation with that index has read; zero if there is none.
func (r *txnResponse) read(index int) keyValue {
	if index >= len(r.Responses) {
		return keyValue{}
	}
	return r.Responses[index].Range.first()
}

type compactRequest struct {
	Revision int64 `json:"revision,string"`
}

type statusResponse struct {
	Size  int64 `json:"dbSize,string"`
	InUse int64 `json:"dbSizeInUse,string"`
	Quota int64 `json:"dbSizeQuota,string"` // 3.6 and later
}

// failure is the body of an answer with a status other than 200.
type failure struct {
	Message string `json:"message"`
	Error   string `json:"error"`
	Code    int    `json:"code"` // of gRPC
}

// Codes of gRPC.
const (
	codeInvalid         = 3
	codeForbidden       = 7
	codeExhausted       = 8
	codePrecondition    = 9
	codeOutOfRange      = 11
	codeUnauthenticated = 16
)
