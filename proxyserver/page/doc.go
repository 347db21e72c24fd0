// Package page renders the status page of a server: for an operator, and for
// somebody whose job waits. It makes HTML from what package pool says of its state,
// and knows nothing of HTTP, sessions or time.
//
// It guarantees:
//
//   - What a client or an operator sent is text, see package markup. A text becomes
//     a link only if it is a URL of http or https.
//   - A page is whole without JavaScript and without any other host, and its size is
//     bounded: long lists come in pieces, with a link to the next.
//   - A page consists of parts with an id each. A part whose state has not changed
//     is the same text, if the page is made for a browser that counts by itself
//     ([Clock.Live]). So a server sends the parts that changed, and no others.
//
// # Inside
//
// document.go puts parts into a page, and assets.go has the files that it names.
// There is a file for each page, and one for each table; view.go, bar.go and chart.go
// say how times, owners, states and days look, and link.go where links lead.
package page
