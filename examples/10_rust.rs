// Another language, through the C interface alone:
//   rustc 10_rust.rs -L build/release -l bantam && LD_LIBRARY_PATH=build/release ./10_rust models/books4m
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io::Write;
use std::ptr::{null, null_mut};

#[repr(C)]
pub struct Model([u8; 0]);
#[repr(C)]
pub struct Session([u8; 0]);
type TextCallback = extern "C" fn(*const c_char, usize, *mut c_void) -> c_int;

extern "C" {
    fn bantam_model_load(model: *mut *mut Model, path: *const c_char) -> i32;
    fn bantam_model_free(model: *mut Model);
    fn bantam_session_new(session: *mut *mut Session, model: *const Model, options: *const c_void) -> i32;
    fn bantam_session_free(session: *mut Session);
    fn bantam_session_generate(session: *mut Session, prompt: *const c_char, max_tokens: i64, callback: TextCallback, user: *mut c_void) -> i32;
    fn bantam_last_error() -> *const c_char;
}

/// Text comes as bytes with their number; `user` is whatever was given along.
extern "C" fn print_text(utf8: *const c_char, bytes: usize, user: *mut c_void) -> c_int {
    let (text, pieces) = unsafe { (std::slice::from_raw_parts(utf8 as *const u8, bytes), &mut *(user as *mut u32)) };
    *pieces += 1;
    let mut out = std::io::stdout();
    (out.write_all(text).and(out.flush()).is_err()) as c_int
}

fn check(status: i32) -> Result<(), String> {
    if status == 0 { return Ok(()); }
    Err(unsafe { CStr::from_ptr(bantam_last_error()) }.to_string_lossy().into_owned())
}

fn run(path: &str) -> Result<u32, String> {
    let (path, prompt) = (CString::new(path).unwrap(), CString::new("In the garden there was").unwrap());
    let (mut model, mut session, mut pieces) = (null_mut(), null_mut(), 0u32);
    let result = unsafe {
        check(bantam_model_load(&mut model, path.as_ptr()))
            .and_then(|_| check(bantam_session_new(&mut session, model, null())))
            .and_then(|_| check(bantam_session_generate(session, prompt.as_ptr(), 32, print_text, &mut pieces as *mut u32 as *mut c_void)))
    };
    unsafe { (bantam_session_free(session), bantam_model_free(model)) };
    result.map(|_| pieces)
}

fn main() {
    match run(&std::env::args().nth(1).expect("usage: 10_rust MODEL")) {
        Ok(pieces) => println!("\n({pieces} pieces)"),
        Err(line) => { eprintln!("10_rust: {line}"); std::process::exit(1) }
    }
}
